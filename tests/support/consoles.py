"""What is printed on a console."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console


def printed(show: Callable[[Console], None], width: int = 400) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        show(console)
    return captured.get()
