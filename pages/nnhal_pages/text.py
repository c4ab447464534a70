"""Texts of strangers as markup, shown and never obeyed, and long names shortened."""

from __future__ import annotations

from html import escape
from unicodedata import category

ELLIPSIS = "…"


def shortened(name: str, width: int) -> str:
    """The name in at most ``width`` characters: its middle becomes an ellipsis, since both ends tell names apart."""
    if len(name) <= width:
        return name
    kept = max(width - len(ELLIPSIS), 0)
    return name[: kept - kept // 2] + ELLIPSIS + name[len(name) - kept // 2 :]


def clipped(sentence: str, width: int) -> str:
    """The sentence in at most ``width`` characters: it ends with a whole word if there is room for one."""
    if len(sentence) <= width:
        return sentence
    room = max(width - len(ELLIPSIS), 0)
    words = sentence[: room + 1].rpartition(" ")[0]
    return (words.rstrip(" :,;") or sentence[:room]) + ELLIPSIS


_SHOWN = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\u200c": "\u200c", "\u200d": "\u200d"}
"""Some have a short form. The last two join letters, or keep them apart."""


def visible(text: str) -> str:
    """Return the text with its control characters written out.

    Among them are those that turn the direction of what follows, that end a line, and that XML forbids.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def escaped(text: str) -> str:
    """Return markup, for content and for attributes in quotes, that shows the text."""
    return escape(visible(text))


def _visible(character: str) -> str:
    if category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\ufffe\uffff":
        return character
    return _SHOWN.get(character) or f"\\u{ord(character):04x}"
