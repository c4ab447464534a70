"""A report as data: lines, figures, tables and pictures, which are printed in a terminal or written as a page.

A command lists the parts of its report. ``show_parts(parts, console)`` prints them, and ``report_page(title, sections,
sheet)`` makes one HTML document of them: no script, and nothing that is loaded from elsewhere. A part that only one of
them has is given to that one. A table is its rows and its columns, which say how a cell is made of a row, for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from rich.console import Console
from rich.table import Column as TerminalColumn
from rich.table import Table as TerminalTable

from nnhal_pages.document import Figure, document, figure_list, scrolling, style
from nnhal_pages.svg import Drawing, drawing_style
from nnhal_pages.tables import short_name, stacking_table
from nnhal_pages.terminal import Footnotes, Name, show_table
from nnhal_pages.text import escaped

Row = TypeVar("Row")


class Mark(NamedTuple):
    """A cell that a page shows in another way than as plain text."""

    text: str
    title: str = ""
    """What is shown beside the pointer."""
    strong: bool = False


Cell: TypeAlias = str | Name | Mark | tuple[str, Name]
"""A name is shortened if it is too long, in a pair behind a text."""


class Medium(Enum):
    """What shows a report."""

    TERMINAL = "terminal"
    PAGE = "page"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table."""

    header: str
    """A page begins it with a capital letter."""
    cell: Callable[[Row], Cell]
    number: bool = False
    """Whether it is aligned to the right."""
    wraps: bool = False
    """Whether a narrow terminal may break its cells into lines."""
    only: Medium | None = None
    page_header: str = ""
    """The header on a page, if it is another one."""


@dataclass(frozen=True)
class ReportTable(Generic[Row]):
    """A table."""

    title: str
    """In a terminal."""
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    kind: str = ""
    """Its class on a page."""
    caption: str = ""
    """On a page."""
    groups: Sequence[tuple[str, int]] = ()
    """What rows that belong together have in common, and how many they are; a terminal draws a line between them."""

    def shown_on(self, medium: Medium) -> list[Column[Row]]:
        """Return the columns that a terminal or a page has."""
        return [column for column in self.columns if column.only in (None, medium)]


class FigureCards(NamedTuple):
    """The sums of a report, as cards on a page."""

    cards: Sequence[Figure]


class Picture(NamedTuple):
    """A picture that may be wider than the page."""

    name: str
    drawing: Drawing


class Folded(NamedTuple):
    """Parts that a page shows when somebody asks for them."""

    summary: str
    parts: Sequence[PagePart]


class Markup(NamedTuple):
    """HTML that no other part has."""

    html: str


TerminalPart: TypeAlias = str | Footnotes | ReportTable[Any]
"""A line, the footnotes of the tables before it, or a table."""
PagePart: TypeAlias = str | FigureCards | Picture | ReportTable[Any] | Folded | Markup
"""A text is a note."""


def show_parts(parts: Iterable[TerminalPart], console: Console) -> None:
    """Print the parts of a report, in their order."""
    for part in parts:
        match part:
            case str():
                console.print(part, markup=False)
            case Footnotes():
                part.show(console)
            case ReportTable():
                show_table(_terminal_table(part), console)


def report_page(title: str, sections: Iterable[tuple[str, Sequence[PagePart]]], sheet: str) -> str:
    """Return a whole HTML document with a heading for each section. ``sheet`` is the style of this page alone."""
    content = "".join(
        f"<section><h2>{escaped(name)}</h2>{''.join(map(part_html, parts))}</section>" for name, parts in sections
    )
    return document(title, content, style() + drawing_style() + sheet)


def part_html(part: PagePart) -> str:
    """Return a part as HTML."""
    match part:
        case str():
            return f"<p class='note'>{escaped(part)}</p>"
        case FigureCards(cards):
            return figure_list(cards)
        case Picture(name, drawing):
            return scrolling(name, drawing.embedded())
        case Folded(summary, parts):
            return f"<details><summary>{escaped(summary)}</summary>{''.join(map(part_html, parts))}</details>"
        case Markup(html):
            return html
        case _:
            return _page_table(part)


def _terminal_table(given: ReportTable[Row]) -> TerminalTable:
    columns = given.shown_on(Medium.TERMINAL)
    heads = (
        TerminalColumn(each.header, no_wrap=not each.wraps, justify="right" if each.number else "left")
        for each in columns
    )
    table = TerminalTable(*heads, title=given.title)
    ends, end = set(), 0
    for _, count in given.groups:
        end += count
        ends.add(end)
    for number, row in enumerate(given.rows, 1):
        table.add_row(*(_printed(each.cell(row)) for each in columns), end_section=number in ends)
    return table


def _printed(cell: Cell) -> str | Name:
    match cell:
        case Mark():
            return cell.text
        case tuple():
            raise TypeError(f"{cell[0]} and a name in one cell, expected a column for each in a terminal")
        case _:
            return cell


def _page_table(given: ReportTable[Row]) -> str:
    columns = given.shown_on(Medium.PAGE)
    header = [escaped(each.page_header or each.header[:1].upper() + each.header[1:]) for each in columns]
    rows = [[_written(each.cell(row)) for each in columns] for row in given.rows]
    numbers = {place for place, each in enumerate(columns) if each.number and place}
    groups = [(escaped(title), count) for title, count in given.groups]
    return stacking_table(given.kind, escaped(given.caption), header, rows, numbers, groups)


def _written(cell: Cell) -> str:
    match cell:
        case Name():
            return short_name(cell.name)
        case Mark(text, title, strong):
            marked = f"<strong>{escaped(text)}</strong>" if strong and text else escaped(text)
            return f"<span title='{escaped(title)}'>{marked}</span>" if title else marked
        case (text, name):
            return f"{escaped(text)} {short_name(name.name)}"
        case _:
            return escaped(cell)
