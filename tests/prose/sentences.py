"""Sentences of a page in Markdown, without its code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"^ *```")
_INDENTED = re.compile(r"^ {4,}\S")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_LIST_OF_CODE = re.compile(r"`[^`]+`(?:(?:, | and |, and )`[^`]+`)+")
_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"<[^>]+>")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=\S)")
_WORD = re.compile(r"\w")


class Sentence(NamedTuple):
    """A sentence, or a part of a cell of a table: one ends at each colon and semicolon."""

    line: int
    """The number of the line on which its paragraph begins."""
    text: str

    @property
    def words(self) -> int:
        """Count its words. A list of code counts as one."""
        return sum(1 for word in self.text.split() if _WORD.search(word))


def sentences_of(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a page in their order."""
    for line, paragraph in _paragraphs(text):
        plain = _LIST_OF_CODE.sub("CODE", paragraph)
        plain = _TAG.sub("", _LINK.sub(r"\1", _CODE.sub("CODE", plain)))
        for part in _END.split(plain):
            if part.strip():
                yield Sentence(line, " ".join(part.split()))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, items of lists, and parts of cells of tables, each with the number of its first line."""
    first, held = 0, list[str]()
    is_code = was_empty = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if _FENCE.match(line):
            is_code = not is_code
        is_apart = is_code or _FENCE.match(line) or line.startswith(("|", "#")) or not line.strip()
        is_indented = not held and (was_empty or number == 1) and _INDENTED.match(line) is not None
        if held and (is_apart or _ITEM.match(line)):
            yield first, " ".join(held)
            held = []
        if line.startswith("|") and not is_code:
            yield from ((number, part) for part in re.split(r"(?<!\\)\||[;:] ", line))
        was_empty = not line.strip() or (is_indented and not is_apart)
        if not is_apart and not is_indented:
            if not held:
                first = number
            held.append(_ITEM.sub("", line))
