"""Rate limits: a bucket of requests for each client, refilled at a steady rate."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

TOO_OFTEN = "too many requests; come again later"
"""What a client with an empty bucket is told."""
_MAX_CLIENTS = 4096
"""How many clients have buckets. One whose bucket is full again may be forgotten; while none is, others share one."""
_OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second, and how many may come at once."""

    per_second: float
    burst: int


class ClientRates(Protocol):
    """How often clients may call."""

    def admit(self, client: str) -> bool:
        """Count a request of a client; return False if the client calls too often."""


class RateLimits:
    """The buckets of all clients. Safe to use from several threads."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, client: str) -> bool:
        """Take one request out of a client's bucket; return False if it is empty."""
        with self._lock:
            now = self._clock()
            if client not in self._buckets and not self._has_room(now):
                client = _OTHERS
            level = self._level(self._buckets.pop(client, (float(self._rate.burst), now)), now)
            admitted = level >= 1
            self._buckets[client] = (level - admitted, now)
        return admitted

    def _has_room(self, now: float) -> bool:
        """Whether there may be another bucket; forgets the one that was used longest ago if that is full again."""
        if len(self._buckets) < _MAX_CLIENTS:
            return True
        oldest = next(iter(self._buckets))
        if self._level(self._buckets[oldest], now) < self._rate.burst:
            return False
        del self._buckets[oldest]
        return True

    def _level(self, bucket: tuple[float, float], now: float) -> float:
        """The requests that are left in a bucket."""
        level, seen = bucket
        return min(self._rate.burst, level + (now - seen) * self._rate.per_second)
