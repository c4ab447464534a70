"""Counters for limits, which several processes may share."""

from __future__ import annotations


class SharedNumber:
    """A number that several processes may add to, each to its own part. In each, for one thread at a time."""

    __slots__ = ("own", "parts")

    def __init__(self, parts: list[int] | memoryview[int] | None = None, own: int = 0) -> None:
        """``parts`` are those of all processes, ``own`` says which one is that of this process. Without parts, it is a
        number of this process alone.
        """
        self.parts: list[int] | memoryview[int] = [0] if parts is None else parts
        self.own = own

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self.parts)

    def add(self, more: int) -> None:
        """Add to the own part."""
        self.parts[self.own] += more
