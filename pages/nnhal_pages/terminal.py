"""Reports and tables of commands in a terminal: fitted to a terminal, or as wide as their content if there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from nnhal_pages.report import Cell, Footnotes, Mark, Markup, Medium, Name, ReportTable, Row, TerminalPart
from nnhal_pages.text import shortened

_UNBOUNDED = 1 << 16
"""Columns of an output that is no terminal: nothing is wrapped or cut in a pipe or a file."""
_LEAST_NAME = 12


def output_console() -> Console:
    """A console on standard output. It is unbounded unless that is a terminal."""
    return Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False)


def show_table(table: Table, console: Console) -> None:
    """Print a table, its title and caption on lines of their own: above a narrow table they would be wrapped."""
    title, caption = table.title, table.caption
    table.title = table.caption = None
    if title:
        console.print(title, style="table.title")
    console.print(table)
    if caption:
        console.print(caption, style="table.caption")


class FittingName:
    """A cell with a name, which a column that is too narrow for it shortens in the middle."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.name, options.max_width), no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.name), _LEAST_NAME), len(self.name)).with_maximum(options.max_width)


def show_parts(parts: Iterable[TerminalPart], console: Console) -> None:
    for part in parts:
        match part:
            case str():
                console.print(part, markup=False)
            case Footnotes():
                for line in part.lines():
                    console.print(Text(line))
            case ReportTable():
                show_table(_terminal_table(part), console)


def _terminal_table(given: ReportTable[Row]) -> Table:
    columns = given.shown_on(Medium.TERMINAL)
    heads = (
        TableColumn(each.header, no_wrap=not each.wraps, justify="right" if each.number else "left") for each in columns
    )
    table = Table(*heads, title=given.title)
    ends, end = set(), 0
    for group in given.groups:
        end += group.count
        ends.add(end)
    for number, row in enumerate(given.rows, 1):
        table.add_row(*(_printed(each.cell(row)) for each in columns), end_section=number in ends)
    return table


def _printed(cell: Cell) -> Text | FittingName:
    match cell:
        case Name(name):
            return FittingName(name)
        case Mark() | Markup():
            return Text(cell.text)
        case tuple():
            raise TypeError(f"{_printed(cell[0])} and a name in one cell, expected a column for each in a terminal")
        case _:
            return Text(cell)
