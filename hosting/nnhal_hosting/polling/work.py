"""Work that a call on a channel leaves to do."""

from __future__ import annotations

from typing import Protocol


class Work(Protocol):
    """Work that an exchange leaves to do."""

    @property
    def is_brief(self) -> bool:
        """Return whether it waits for nothing, and takes less time than waking another thread."""
        ...

    def run(self) -> None:
        """Do the work. If it raises, its channel ends."""
        ...


BRIEF_NS = 100_000
"""Less than it takes to wake another thread, and to compete with it for the interpreter."""
_HISTORY = 0xFF


class Pace:
    """Times of the last eight exchanges. Work is brief if at most one was longer than BRIEF_NS.

    One is forgiven, since a processor that is taken away makes anything long; work without a history is not brief.
    """

    __slots__ = ("_long", "is_brief")

    def __init__(self) -> None:
        self._long = _HISTORY
        self.is_brief = False
        """True if the next time is expected to be brief."""

    def add(self, duration_ns: int) -> None:
        self._long = (self._long << 1 | (duration_ns > BRIEF_NS)) & _HISTORY
        self.is_brief = self._long.bit_count() <= 1
