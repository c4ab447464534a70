"""Which lines of a log are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.v1 import admin_pb2
from nnhal_hosting.logs import LEVELS

SHOWN = 200
"""Lines on a page, the newest."""
KEPT = 5000
"""Lines of a download."""


@dataclass(frozen=True, slots=True)
class LineSelection:
    """What a line must be; an empty value asks for nothing."""

    process: str = ""
    level: str = ""
    """The least important level."""
    text: str = ""
    """What it contains, in any case."""
    request: str = ""
    """The id of the request that it is about."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> LineSelection:
        """Return the selection of a query. Raises ValueError if the level is unknown."""
        chosen = cls(*(parameters.get(name, "") for name in ("process", "level", "text", "request")))
        if chosen.level and chosen.level not in LEVELS:
            raise ValueError(f"level is {chosen.level!r}, expected one of {', '.join(LEVELS)}")
        return chosen

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {"process": self.process, "level": self.level, "text": self.text, "request": self.request}
        return {name: value for name, value in given.items() if value}

    def of_lines(self, lines: Sequence[admin_pb2.LogLine], most: int) -> list[admin_pb2.LogLine]:
        """Return the last lines that are as asked, the oldest first."""
        found: list[admin_pb2.LogLine] = []
        for line in reversed(lines):
            if self._takes(line):
                found.append(line)
                if len(found) == most:
                    break
        return found[::-1]

    def _takes(self, line: admin_pb2.LogLine) -> bool:
        if self.process and line.process != self.process:
            return False
        if self.level and line.level and LEVELS.index(line.level) < LEVELS.index(self.level):
            return False
        if self.request and line.request_id != self.request:
            return False
        return not self.text or self.text.lower() in line.text.lower()


def visible(text: str) -> str:
    """A line with its control characters made visible: a terminal's escape sequences do nothing here."""
    return "".join(character if character.isprintable() else _shown(character) for character in text)


def _shown(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"\\u{code:04x}"
