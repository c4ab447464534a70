"""Counters for limits, which several processes may share."""

from __future__ import annotations

from typing import Protocol


class SharedNumber(Protocol):
    """A number that several may add to, each its own part."""

    @property
    def total(self) -> int:
        """The sum of all parts."""

    def add(self, more: int) -> None:
        """Add to the own part. For one thread at a time."""


class LocalNumber:
    """A number of this process alone."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def add(self, more: int) -> None:
        """Add to it. For one thread at a time."""
        self.total += more
