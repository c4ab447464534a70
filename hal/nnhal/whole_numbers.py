"""Whole numbers in texts of clients."""

from __future__ import annotations


def whole_number(text: str, most: int = 2**63 - 1) -> int | None:
    """The number that a text of decimal digits means; None if it is no such text, or the number is above ``most``."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    number = int(text)
    return number if number <= most else None
