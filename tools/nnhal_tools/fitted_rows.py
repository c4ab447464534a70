"""Tables that stay readable in a narrow terminal: no cell is cut, and few words are broken."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_LONG_WORD = 24
"""Columns: a longer word, such as a path, may be broken."""
_BORDER, _GAP = 3, 2
"""Columns that a boxed table and a plain one need for each of theirs, beside the text."""


def fitted_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> RenderableType:
    """Lay out rows of cells, which are text and no markup, for an output of ``width`` columns.

    This is a table with borders; one without if that is too wide; a paragraph for each row if that is, too.
    """
    least = sum(_least_width(column) for column in zip(columns, *rows, strict=True))
    if least + _BORDER * len(columns) < width:
        table = Table()
    elif least + _GAP * len(columns) <= width:
        table = Table(box=None, padding=(0, _GAP, 0, 0))
    else:
        return Group(*(_paragraph(columns, row) for row in rows))
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _least_width(cells: Sequence[str]) -> int:
    return max(min(len(word), _LONG_WORD) for cell in cells for word in cell.split() or [""])


def _paragraph(columns: Sequence[str], row: Sequence[str]) -> RenderableType:
    facts = "; ".join(f"{column}: {cell}" for column, cell in zip(columns[1:], row[1:], strict=True) if cell)
    return Group(Text(row[0], style="bold"), Padding(Text(facts, overflow="fold"), (0, 0, 0, 2)))
