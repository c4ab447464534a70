"""A comparison as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from nnhal_pages.document import document, style
from nnhal_pages.explanation.marks import counted
from nnhal_pages.svg import Drawing, drawing_style
from nnhal_pages.tables import short_name, stacking_table
from nnhal_pages.text import escaped
from nnhal_tools.diff.figures import Figures
from nnhal_tools.diff.pictures import LEVELS, layer_graph, level_of, step_bars
from nnhal_tools.diff.report import MADE, DiffReport, LayerDiff
from nnhal_tools.diff.text import (
    cosine_words,
    declined_words,
    growth_words,
    number,
    reduced_words,
    sqnr_words,
    title_of,
    verdict,
)


def diff_page(report: DiffReport) -> str:
    """Return a whole HTML document."""
    sections = [
        ("Summary", _summary(report)),
        ("Graph", _graph(report)),
        ("Layers", _layers(report)),
        ("Each layer", "".join(_panel(layer) for layer in report.layers)),
    ]
    content = "".join(f"<section><h2>{title}</h2>{text}</section>" for title, text in sections)
    sheet = style() + drawing_style() + _page_style()
    return document(f"{report.model}: {report.dut} against {report.ref}", content, sheet)


@cache
def _page_style() -> str:
    return files("nnhal_tools.diff").joinpath("page.css").read_text()


def _summary(report: DiffReport) -> str:
    first = report.first
    equal = sum(layer.error is not None and layer.error.is_equal for layer in report.layers)
    made = sum(layer.origin == MADE for layer in report.over)
    cards = (
        ("Layers", f"{len(report.layers)}", f"{equal} with equal bits, on {counted(report.samples, 'sample')}"),
        ("Over the limits", f"{len(report.over)}", f"{made} by an error of their own"),
        ("First over", f"layer {first.number}" if first else "none", first.origin if first else ""),
    )
    sums = "".join(
        f"<div><dt>{escaped(name)}</dt><dd class='figure'>{escaped(figure)}</dd><dd class='small'>{escaped(more)}</dd>"
        "</div>"
        for name, figure, more in cards
    )
    told = (verdict(report), *declined_words(report), *report.notes, reduced_words(report))
    notes = "".join(f"<p class='note'>{escaped(note)}</p>" for note in told if note)
    return f"<dl class='sums'>{sums}</dl>{notes}"


def _graph(report: DiffReport) -> str:
    legend = "".join(f"<li class='{level}'>{escaped(words)}</li>" for level, words in LEVELS.items())
    note = (
        "Colours are the signal-to-noise ratio in the model. A thick frame is an error over the limits that is made "
        "there, a dashed one an error over the limits that is inherited. A box leads to its layer."
    )
    return f"<p class='note'>{note}</p><ul class='levels' aria-label='Colours'>{legend}</ul>" + _scroll(
        "The layers", layer_graph(report)
    )


def _layers(report: DiffReport) -> str:
    header = ("Layer", "Operation", "On", "Differ", "Largest", "Mean", "SQNR", "Cosine", "Growth", "Alone", "Over")
    rows = [_row(layer) for layer in report.layers]
    caption = (
        "Each layer in the model, and alone on the reference's inputs. Growth is what it loses of the SQNR of its "
        "worst input."
    )
    return stacking_table("layers", caption, header, rows, set(range(3, 10)))


def _row(layer: LayerDiff) -> tuple[str, ...]:
    error = layer.error
    link = f"<a href='#layer-{layer.number}'>{layer.number}</a> {short_name(title_of(layer))}"
    cells = ("", "", "", "not compared", "")
    if error is not None:
        differ = f"{error.mismatching:,} of {error.elements:,}"
        cells = (differ, number(error.largest), number(error.mean), sqnr_words(error), cosine_words(error))
    alone = sqnr_words(layer.made) if layer.made is not None else ""
    words = (" + ".join(layer.operations), layer.runs_on, *cells, growth_words(layer), alone, layer.origin)
    return (link, *map(escaped, words))


def _panel(layer: LayerDiff) -> str:
    told = [layer.fused, layer.problem, layer.made_problem, *layer.over]
    told += [f"alone: {words}" for words in layer.made_over]
    notes = "".join(f"<p class='note'>{escaped(words)}</p>" for words in told if words)
    pictures = [
        _scroll(name, step_bars(figures, name))
        for name, figures in (("in the model", layer.error), ("alone", layer.made))
        if figures is not None and any(figures.steps)
    ]
    facts = f"<p class='small'>{escaped(layer.value)}: {layer.type} {escaped(str(list(layer.dimensions)))}</p>"
    own = "".join(_facts(name, figures) for name, figures in (("In the model", layer.error), ("Alone", layer.made)))
    return (
        f"<details><summary>{layer.number}: {short_name(title_of(layer))}, {escaped(sqnr_words(layer.error))}</summary>"
        f"<div class='place {level_of(layer)}' id='layer-{layer.number}'>{facts}{notes}{own}{''.join(pictures)}</div>"
        "</details>"
    )


def _facts(name: str, figures: Figures | None) -> str:
    if figures is None:
        return ""
    words = (
        f"{name}: {figures.mismatching:,} of {figures.elements:,} differ, largest {number(figures.largest)}, mean "
        f"{number(figures.mean)}, peak of the reference {number(figures.peak)}, at most {figures.largest_step:,} steps "
        f"or ULPs, {sqnr_words(figures)}"
    )
    return f"<p>{escaped(words)}</p>"


def _scroll(name: str, drawing: Drawing) -> str:
    return f"<div class='scroll' role='region' aria-label='{escaped(name)}' tabindex='0'>{drawing.embedded()}</div>"
