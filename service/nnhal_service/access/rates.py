"""Rate limits: a bucket of requests for each client, which fills again at a steady rate."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

TOO_OFTEN = "too many requests; come again later"
"""What a client is told whose bucket is empty."""
_MAX_CLIENTS = 4096
"""Of how many clients buckets are kept; one that was forgotten begins with a full one."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second, and how many may come at once."""

    per_second: float
    burst: int


class RateLimits:
    """Safe to use from several threads."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, client: str) -> bool:
        """Take one request out of a client's bucket; False where it is empty."""
        rate, now = self._rate, self._clock()
        with self._lock:
            level, seen = self._buckets.pop(client, (float(rate.burst), now))
            level = min(rate.burst, level + (now - seen) * rate.per_second)
            admitted = level >= 1
            self._buckets[client] = (level - admitted, now)
            if len(self._buckets) > _MAX_CLIENTS:
                self._buckets.popitem(last=False)
        return admitted
