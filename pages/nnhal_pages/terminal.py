"""How commands print tables: fitted to a terminal, or as wide as their content if there is none."""

from __future__ import annotations

import sys

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

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


class Name:
    """A cell with the name of a node or a value. A column that is too narrow for it shortens it in the middle."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.name, options.max_width), no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.name), _LEAST_NAME), len(self.name)).with_maximum(options.max_width)


class Footnotes:
    """Sentences that rows of a table share: a row has the number, the sentence is printed once below the table."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, sentence: str) -> str:
        """The number of a sentence, which is a new one for a new sentence."""
        return str(self._numbers.setdefault(sentence, len(self._numbers) + 1))

    def show(self, console: Console) -> None:
        """Print the sentences with their numbers."""
        for sentence, number in self._numbers.items():
            console.print(Text(f"{number}: {sentence}"))
