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
"""How many clients have buckets; a client that was forgotten begins with a full one."""


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
        rate, now = self._rate, self._clock()
        with self._lock:
            level, seen = self._buckets.pop(client, (float(rate.burst), now))
            level = min(rate.burst, level + (now - seen) * rate.per_second)
            admitted = level >= 1
            self._buckets[client] = (level - admitted, now)
            if len(self._buckets) > _MAX_CLIENTS:
                self._buckets.popitem(last=False)
        return admitted
