"""The report of a comparison, in a terminal and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files

from rich.console import Console

from nnhal_pages.document import Figure
from nnhal_pages.explanation.marks import counted
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Footnotes,
    Mark,
    Markup,
    Medium,
    Name,
    PagePart,
    Picture,
    ReportTable,
    TerminalPart,
    report_page,
)
from nnhal_pages.terminal import show_parts
from nnhal_pages.text import escaped
from nnhal_tools.diff.pictures import LEVELS, layer_graph, level_of, step_bars
from nnhal_tools.diff.report import MADE, DiffReport, LayerDiff
from nnhal_tools.diff.text import (
    cosine_words,
    differ_words,
    growth_words,
    notes_of,
    number,
    sqnr_words,
    steps_words,
    title_of,
    verdict,
)
from nnhal_tools.distance.figures import Figures

_GRAPH = (
    "Colours are the signal-to-noise ratio in the model. A thick frame is an error over the limits that is made "
    "there, a dashed one an error over the limits that is inherited, or noise. A box leads to its layer."
)


def show_report(report: DiffReport, console: Console, everything: bool = False) -> None:
    """Print the verdict, and a row for each layer that has an error; for all of them with ``everything``."""
    rows = [layer for layer in report.layers if everything or layer.error is None or not layer.error.is_equal]
    footnotes, parts = Footnotes(), list[TerminalPart]()
    if rows:
        parts.append(_layers(rows, footnotes))
    if equal := len(report.layers) - len(rows):
        parts.append(f"{counted(equal, 'layer')} with equal bits; --all shows all")
    show_parts([*parts, footnotes, *notes_of(report), verdict(report)], console)


def diff_page(report: DiffReport) -> str:
    """Return a whole HTML document."""
    legend = "".join(f"<li class='{level}'>{escaped(words)}</li>" for level, words in LEVELS.items())
    levels = Markup(f"<ul class='levels' aria-label='Colours'>{legend}</ul>")
    sections: list[tuple[str, list[PagePart]]] = [
        ("Summary", [_sums(report), verdict(report), *notes_of(report)]),
        ("Graph", [_GRAPH, levels, Picture("The layers", layer_graph(report))]),
        ("Layers", [_layers(report.layers, Footnotes())]),
        ("Each layer", [_panel(layer) for layer in report.layers]),
    ]
    sheet = files("nnhal_tools.diff").joinpath("page.css").read_text()
    return report_page(f"{report.model}: {report.dut} against {report.ref}", sections, sheet)


def _sums(report: DiffReport) -> FigureCards:
    first = report.first
    equal = sum(layer.error is not None and layer.error.is_equal for layer in report.layers)
    made = sum(layer.origin == MADE for layer in report.over)
    return FigureCards(
        [
            Figure(
                "Layers", f"{len(report.layers)}", f"{equal} with equal bits, on {counted(report.samples, 'sample')}"
            ),
            Figure("Over the limits", f"{len(report.over)}", f"{made} by an error of their own"),
            Figure("First over", f"layer {first.number}" if first else "none", first.origin if first else ""),
        ]
    )


def _layers(layers: Sequence[LayerDiff], footnotes: Footnotes) -> ReportTable[LayerDiff]:
    def figure(header: str, words: Callable[[Figures], str], missing: str = "") -> Column[LayerDiff]:
        return Column(header, lambda layer: words(layer.error) if layer.error else missing, number=True)

    def steps(layer: LayerDiff) -> str:
        return steps_words(layer.error) if layer.error else ""

    def notes(layer: LayerDiff) -> str:
        return " ".join(map(footnotes.number, filter(None, (layer.fused, layer.problem, layer.made_problem))))

    columns: list[Column[LayerDiff]] = [
        Column("layer", lambda layer: f"{layer.number}", number=True, only=Medium.TERMINAL),
        Column("layer", lambda layer: (_link(layer), Name(title_of(layer))), only=Medium.PAGE),
        Column("nodes", lambda layer: Name(title_of(layer)), wraps=True, only=Medium.TERMINAL),
        Column("operation", lambda layer: " + ".join(layer.operations), wraps=True),
        Column("on", lambda layer: layer.runs_on, wraps=True),
        figure("differ", differ_words),
        figure("largest", lambda error: number(error.largest)),
        figure("mean", lambda error: number(error.mean)),
        figure("SQNR", sqnr_words, "not compared"),
        figure("cosine", cosine_words),
        Column("growth", growth_words, number=True),
        Column("alone", lambda layer: sqnr_words(layer.made) if layer.made else "", number=True),
        Column(
            "steps", lambda layer: steps_words(layer.error) if layer.error else "", wraps=True, only=Medium.TERMINAL
        ),
        Column("over", lambda layer: layer.origin, wraps=True),
        Column("note", notes, wraps=True, only=Medium.TERMINAL),
    ]
    caption = (
        "Each layer in the model, and alone on the reference's inputs. Growth is what it loses of the SQNR of its "
        "worst input."
    )
    title = "Each layer, in the model and alone on the reference's inputs"
    return ReportTable(title, columns, layers, "layers", caption)


def _link(layer: LayerDiff) -> Mark:
    return Mark(f"{layer.number}", address=f"#{_place(layer)}")


def _place(layer: LayerDiff) -> str:
    return f"layer-{layer.number}"


def _panel(layer: LayerDiff) -> Folded:
    summary, more = title_of(layer), f", {sqnr_words(layer.error)}"
    return Folded(
        (Mark(f"{layer.number}:"), Name(summary)), list(_details(layer)), more, _place(layer), level_of(layer)
    )


def _details(layer: LayerDiff) -> Iterator[PagePart]:
    found = [(name, figures) for name, figures in (("in the model", layer.error), ("alone", layer.made)) if figures]
    yield f"{layer.value}: {layer.type} {list(layer.dimensions)}"
    yield from dict.fromkeys(filter(None, (layer.fused, layer.problem, layer.made_problem, *layer.over)))
    yield from (f"alone: {words}" for words in layer.made_over)
    for name, figures in found:
        yield Markup(f"<p>{escaped(_facts(name, figures))}</p>")
    yield from (Picture(name, step_bars(figures, name)) for name, figures in found if any(figures.steps))


def _facts(name: str, figures: Figures) -> str:
    return (
        f"{name.capitalize()}: {differ_words(figures)} differ, largest {number(figures.largest)}, mean "
        f"{number(figures.mean)}, peak of the reference {number(figures.peak)}, at most {figures.largest_step:,} steps "
        f"or ULPs, {sqnr_words(figures)}"
    )
