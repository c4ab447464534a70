"""A report as data: lines, figures, tables and pictures, which are printed in a terminal or written as a page.

A command lists the parts of its report. ``tell(content, parts, as_json)`` prints them, or the same as JSON, and
``report_page(title, sections, sheet)`` makes one HTML document of them: no script, and nothing that is loaded from
elsewhere. A part that only one of the two can show is given to that one alone. A table is its rows and its columns,
which say for both how a cell is made of a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from nnhal_pages.document import Figure, document, figure_list, scrolling, style
from nnhal_pages.svg import Drawing, drawing_style
from nnhal_pages.text import escaped, shortened, visible

Row = TypeVar("Row")


_NAME_WIDTH = 44
"""Characters of a name that a page shows; its title has all."""


class Name(NamedTuple):
    """The name of a node or a value. What is too narrow for it shortens it in the middle."""

    name: str


class Mark(NamedTuple):
    """A cell that a page shows in another way than as plain text."""

    text: str
    title: str = ""
    """What is shown beside the pointer."""
    strong: bool = False
    address: str = ""
    """Where the text leads to, if it is a link."""


class Markup(NamedTuple):
    """HTML that no other part or cell has."""

    html: str
    text: str = ""
    """What a terminal prints in a cell in its place."""


Cell: TypeAlias = str | Name | Mark | Markup | tuple[str | Mark, Name]
"""A name is shortened if it is too long, in a pair behind a text."""


class Medium(Enum):
    """Medium that shows a report."""

    TERMINAL = "terminal"
    PAGE = "page"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table."""

    header: str
    """A page begins it with a capital letter."""
    cell: Callable[[Row], Cell]
    number: bool = False
    """True if it is aligned to the right."""
    wraps: bool = False
    """True if a narrow terminal may break its cells into lines."""
    only: Medium | None = None
    page_header: str = ""
    """The header on a page, if it is another one."""
    kind: str = ""
    """The class of its cells on a page."""


@dataclass(frozen=True)
class RowGroup:
    """Rows of a table that belong together."""

    title: str
    """What they have in common."""
    count: int
    """How many they are."""
    identifier: str = ""
    """Their id on a page, if something leads to them."""


@dataclass(frozen=True)
class ReportTable(Generic[Row]):
    title: str
    """In a terminal."""
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    kind: str = ""
    """Its class on a page."""
    caption: str = ""
    """On a page."""
    groups: Sequence[RowGroup] = ()
    """All rows in their order, or none; a terminal draws a line between two groups."""

    def shown_on(self, medium: Medium) -> list[Column[Row]]:
        return [column for column in self.columns if column.only in (None, medium)]


class Footnotes:
    """Sentences that rows of a table share: a row has the number, the sentence is printed once below the table."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, sentence: str) -> str:
        """Return the number of a sentence, which is a new one for a new sentence."""
        return str(self._numbers.setdefault(sentence, len(self._numbers) + 1))

    def lines(self) -> list[str]:
        return [f"{number}: {sentence}" for sentence, number in self._numbers.items()]


class FigureCards(NamedTuple):
    """The sums of a report, as cards on a page."""

    cards: Sequence[Figure]


class Picture(NamedTuple):
    """A picture that may be wider than the page."""

    name: str
    drawing: Drawing


class Folded(NamedTuple):
    """Parts that a page shows when somebody asks for them, or follows a link to them."""

    summary: Cell
    parts: Sequence[PagePart]
    more: str = ""
    """What the summary says after the name."""
    identifier: str = ""
    """Their id, if something leads to them."""
    kind: str = ""
    """Their class, if something leads to them."""


TerminalPart: TypeAlias = str | Footnotes | ReportTable[Any]
"""A line, the footnotes of the tables before it, or a table."""
PagePart: TypeAlias = str | FigureCards | Picture | ReportTable[Any] | Folded | Markup
"""A text is a note."""


def tell(content: Mapping[str, Any], parts: Iterable[TerminalPart], as_json: bool) -> None:
    """Print a report on standard output: its ``content`` as one JSON object, or else its parts."""
    if as_json:
        print(json.dumps(content))
        return
    # Whoever wants JSON does not wait until rich is loaded.
    from nnhal_pages.terminal import output_console, show_parts

    show_parts(parts, output_console())


def report_page(title: str, sections: Iterable[tuple[str, Sequence[PagePart]]], sheet: str = "") -> str:
    """Return a whole HTML document with a heading for each section. ``sheet`` is the style of this page alone."""
    content = "".join(
        f"<section><h2>{escaped(name)}</h2>{''.join(map(part_html, parts))}</section>" for name, parts in sections
    )
    return document(title, content, style() + drawing_style() + sheet)


def part_html(part: PagePart) -> str:
    match part:
        case str():
            return f"<p class='note'>{escaped(part)}</p>"
        case FigureCards(cards):
            return figure_list(cards)
        case Picture(name, drawing):
            return scrolling(name, drawing.embedded())
        case Folded():
            return _folded(part)
        case Markup():
            return part.html
        case _:
            return _page_table(part)


def _folded(part: Folded) -> str:
    content = "".join(map(part_html, part.parts))
    if part.identifier:
        content = f"<div class='place {part.kind}' id='{part.identifier}'>{content}</div>"
    return f"<details><summary>{_written(part.summary)}{escaped(part.more)}</summary>{content}</details>"


def _page_table(given: ReportTable[Row]) -> str:
    """Return a table whose rows become blocks on a narrow screen, with the header's words before each cell.

    Its elements have roles: without them, what is displayed as blocks is no table to a screen reader.
    """
    columns = given.shown_on(Medium.PAGE)
    heads = [escaped(each.page_header or each.header[:1].upper() + each.header[1:]) for each in columns]
    looks = ["", *(_class("number" if each.number else each.kind) for each in columns[1:])]
    header = "".join(
        f"<th role='columnheader' scope='col'{_class('number') if each.number and place else ''}>{head}</th>"
        for place, (head, each) in enumerate(zip(heads, columns, strict=True))
    )
    remaining, bodies = iter(given.rows), []
    for group in given.groups or (RowGroup("", len(given.rows)),):
        title = (
            f"<tr role='row' class='group'><th role='rowheader' colspan='{len(heads)}' scope='rowgroup'>"
            f"{escaped(group.title)}</th></tr>"
            if given.groups
            else ""
        )
        rows = "".join(_page_row(columns, heads, looks, row) for row in islice(remaining, group.count))
        identifier = f" id='{escaped(group.identifier)}'" if group.identifier else ""
        bodies.append(f"<tbody role='rowgroup'{identifier}>{title}{rows}</tbody>")
    return (
        f"<table role='table' class='stacking {given.kind} labelled'><caption>{escaped(given.caption)}</caption>"
        f"<thead role='rowgroup'><tr role='row'>{header}</tr></thead>{''.join(bodies)}</table>"
    )


def _page_row(columns: Sequence[Column[Row]], heads: Sequence[str], looks: Sequence[str], row: Row) -> str:
    first, *cells = (_written(column.cell(row)) for column in columns)
    rest = "".join(
        f"<td role='cell'{look} data-label='{head}'><div>{cell}</div></td>"
        for cell, head, look in zip(cells, heads[1:], looks[1:], strict=True)
    )
    return f"<tr role='row'><th role='rowheader' scope='row'>{first}</th>{rest}</tr>"


def _class(name: str) -> str:
    return f" class='{name}'" if name else ""


def _written(cell: Cell) -> str:
    match cell:
        case Name():
            return short_name(cell.name)
        case Markup():
            return cell.html
        case Mark(text, title, strong, address):
            marked = f"<strong>{escaped(text)}</strong>" if strong and text else escaped(text)
            marked = f"<a href='{escaped(address)}'>{marked}</a>" if address else marked
            return f"<span title='{escaped(title)}'>{marked}</span>" if title else marked
        case (text, name):
            return f"{_written(text)} {short_name(name.name)}"
        case _:
            return escaped(cell)


def short_name(name: str) -> str:
    """Return a name's element on a page, shortened in the middle, with the whole name as title."""
    return f"<span class='name' title='{escaped(name)}'>{escaped(shortened(visible(name), _NAME_WIDTH))}</span>"
