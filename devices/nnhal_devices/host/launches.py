"""The launches of one client that have not ended."""

from __future__ import annotations

import itertools
import threading
from typing import Protocol, TypeVar

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_devices.host.interrupt import Interrupt

MAX_LAUNCHED = 256
"""Fenced executions of one client that may be launched and have not ended: each has a thread."""
_numbers = itertools.count(1)
T = TypeVar("T")


class Launches:
    """Launched executions and syncs, each with a number that is never used twice. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def enter(self, launched: object) -> None:
        """Note that something was launched. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        with self._lock:
            if len(self._pending) >= MAX_LAUNCHED:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{len(self._pending)} fenced executions of this session have not ended, at most {MAX_LAUNCHED} "
                    "may be launched",
                )
            self._pending[launched] = next(_numbers)

    def leave(self, launched: object) -> None:
        """Note that it has ended."""
        with self._lock:
            del self._pending[launched]

    def all(self, kind: type[T]) -> dict[int, T]:
        """Return those of a kind, by number."""
        with self._lock:
            return {number: launched for launched, number in self._pending.items() if isinstance(launched, kind)}


class LaunchingClient(Protocol):
    """What a launch needs of its client's session."""

    launched: Launches

    interrupt: Interrupt
    """Ends the waits for fences."""
