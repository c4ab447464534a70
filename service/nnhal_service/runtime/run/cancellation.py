"""Runs that are given up: they end at the next boundary between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nnhal.errors import NnhalError


class Cancellation(Protocol):
    """Whether a run is not wanted any more. Safe to use from several threads."""

    @property
    def cancelled(self) -> bool:
        """Whether it is not; that does not change back."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back, in any thread, when it is given up; at once where it has been."""
        ...

    def forget(self, callback: Callable[[], None]) -> None:
        """Do not call back any more; harmless where that has happened."""
        ...


class CancelledRunError(NnhalError):
    """A run was given up: what had begun of it has ended, and nothing else will begin. No device has failed."""

    def __init__(self) -> None:
        super().__init__("the run has been given up")


def require_wanted(cancellation: Cancellation | None) -> None:
    """Raise CancelledRunError where a run has been given up; to be called before a step begins."""
    if cancellation is not None and cancellation.cancelled:
        raise CancelledRunError
