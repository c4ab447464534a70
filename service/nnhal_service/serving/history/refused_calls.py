"""Calls that were refused before any model ran: why, and whose they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

_MOST = 256
"""Pairs of a reason and a client that are distinguished; the clients of more are OTHERS."""
OTHERS = "others"


class RefusedCount(NamedTuple):
    calls: int
    last_ns: int
    """When it was last counted, in nanoseconds since the epoch."""


class RefusedCalls:
    """Counts by reason and client. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], RefusedCount] = {}

    def add(self, reason: str, client: str, count: int = 1) -> None:
        """Count refused calls of a client."""
        with self._lock:
            key = reason, client
            if key not in self._counts and len(self._counts) >= _MOST:
                key = reason, OTHERS
            known = self._counts.get(key)
            self._counts[key] = RefusedCount(count + (known.calls if known is not None else 0), time.time_ns())

    def take(self) -> Mapping[tuple[str, str], int]:
        """Return what was counted since the last call, which is forgotten here."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return {key: each.calls for key, each in taken.items()}

    @property
    def has_counted(self) -> bool:
        """Return whether ``take`` has something to take."""
        return bool(self._counts)

    @property
    def counts(self) -> Mapping[tuple[str, str], RefusedCount]:
        """Return what was counted, by reason and client."""
        with self._lock:
            return dict(self._counts)
