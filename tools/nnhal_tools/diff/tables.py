"""A comparison in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nnhal_pages.explanation.marks import counted
from nnhal_pages.terminal import Footnotes, Name, show_table
from nnhal_tools.diff.report import DiffReport, LayerDiff
from nnhal_tools.diff.text import (
    cosine_words,
    declined_words,
    growth_words,
    number,
    reduced_words,
    sqnr_words,
    steps_words,
    title_of,
    verdict,
)

_NUMBERS = ("differ", "largest", "mean", "SQNR", "cosine", "growth", "alone")


def show_report(report: DiffReport, console: Console, everything: bool = False) -> None:
    """Print the verdict, and a row for each layer that has an error; for all of them with ``everything``."""
    rows = [layer for layer in report.layers if everything or layer.error is None or not layer.error.is_equal]
    footnotes = Footnotes()
    if rows:
        show_table(_table(rows, footnotes), console)
    equal = len(report.layers) - len(rows)
    if equal:
        console.print(Text(f"{counted(equal, 'layer')} with equal bits; --all shows all"))
    footnotes.show(console)
    for note in filter(None, (*declined_words(report), *report.notes, reduced_words(report))):
        console.print(Text(note))
    console.print(Text(verdict(report)))


def _table(rows: list[LayerDiff], footnotes: Footnotes) -> Table:
    table = Table(title="Each layer, in the model and alone on the reference's inputs")
    table.add_column("layer", justify="right")
    for word in ("nodes", "operation", "on"):
        table.add_column(word)
    for word in _NUMBERS:
        table.add_column(word, justify="right", no_wrap=True)
    for word in ("steps", "over", "note"):
        table.add_column(word)
    for layer in rows:
        table.add_row(*_row(layer, footnotes))
    return table


def _row(layer: LayerDiff, footnotes: Footnotes) -> tuple[str | Name, ...]:
    error = layer.error
    notes = [footnotes.number(words) for words in (layer.fused, layer.problem, layer.made_problem) if words]
    alone = sqnr_words(layer.made) if layer.made is not None else ""
    if error is None:
        figures = ("", "", "", "not compared", "", "")
    else:
        differ = f"{error.mismatching:,} of {error.elements:,}"
        distances = (number(error.largest), number(error.mean))
        figures = (differ, *distances, sqnr_words(error), cosine_words(error), growth_words(layer))
    steps = steps_words(error) if error is not None else ""
    return (
        f"{layer.number}",
        Name(title_of(layer)),
        " + ".join(layer.operations),
        layer.runs_on,
        *figures,
        alone,
        steps,
        layer.origin,
        " ".join(notes),
    )
