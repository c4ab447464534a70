"""Text that is printed on a console."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console

from nnhal_pages.report import TerminalPart
from nnhal_pages.terminal import show_parts


def printed(show: Callable[[Console], None], width: int = 400) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        show(console)
    return captured.get()


def printed_parts(parts: Iterable[TerminalPart]) -> str:
    """Return what is shown of a report on a wide console."""
    return printed(lambda console: show_parts(parts, console))
