"""Tables that are printed, and kept as Markdown."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from nnhal_pages.terminal import output_console, show_table


def say(line: str) -> None:
    """Tell the person at the terminal something that belongs to no table."""
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(line, markup=False)


class ShownTables:
    """Prints tables as they come, and writes all of them to a file."""

    def __init__(self) -> None:
        self._tables: list[Table] = []

    def show(self, table: Table) -> None:
        """Print a table."""
        self._tables.append(table)
        # Printing takes the title away.
        title = table.title
        show_table(table, output_console())
        table.title = title

    def write(self, path: Path) -> None:
        """Write what was printed as Markdown."""
        path.write_text("\n".join(map(markdown, self._tables)))


def markdown(table: Table) -> str:
    """Return a table of plain strings as Markdown, its title as a heading."""
    heads = [str(column.header) for column in table.columns]
    lines = ["---:" if column.justify == "right" else "---" for column in table.columns]
    rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    body = [_row(cells) for cells in (heads, lines, *map(list, rows))]
    return "\n".join([f"### {table.title}\n", *body, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
