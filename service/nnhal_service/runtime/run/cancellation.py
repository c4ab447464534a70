"""Cancellation of runs: a cancelled run ends at the next boundary between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nnhal.errors import NnhalError


class Cancellation(Protocol):
    """Whether the caller of a run has cancelled it. Safe to use from several threads."""

    @property
    def cancelled(self) -> bool:
        """Whether it has; once true, it stays true."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, in any thread, when the run is cancelled; at once if it has been."""
        ...

    def forget(self, callback: Callable[[], None]) -> None:
        """Withdraw ``callback``; harmless if it has been called."""
        ...


class CancelledRunError(NnhalError):
    """A run was cancelled: the steps that had begun have ended, and no other begins. No device has failed."""

    def __init__(self) -> None:
        super().__init__("the run has been cancelled")


def require_wanted(cancellation: Cancellation | None) -> None:
    """Raise CancelledRunError if the run has been cancelled; to be called before a step begins."""
    if cancellation is not None and cancellation.cancelled:
        raise CancelledRunError
