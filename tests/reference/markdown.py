"""Markdown of pages that are made from the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Cells are on one line, with their pipes escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Return text as code in a line; nothing for nothing."""
    return f"`{text}`" if text else ""


def plain(docstring: str) -> str:
    """Return a docstring on one line, with code marked as in Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", " ".join(docstring.split()))


def number(value: float) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
