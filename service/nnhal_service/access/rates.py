"""Rate limits: a bucket of requests for each client, refilled at a steady rate; and who is one client.

A client is a token, or without tokens a host, however it connects.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import unquote

TOO_OFTEN = "too many requests; come again later"
"""The message to a client with an empty bucket."""
_MAX_CLIENTS = 4096
"""How many clients have buckets. One whose bucket is full again may be forgotten; while none is, others share one."""
_OTHERS = "others"
THIS_HOST = "host: this one"
"""Everybody who connects over loopback, whose addresses are 16 million, or over a unix socket."""
_PREFIX = 64
"""The bits of IPv6 that name a network, in which each host may take as many addresses as it likes."""


def token_client(name: str) -> str:
    """The client that shows a token, by the token's name."""
    return f"token: {name}"


def user_client(uid: int) -> str:
    """The client that is a user of this host."""
    return f"user: {uid}"


def host_client(peer: str) -> str:
    """The host of a peer, whose name is as gRPC writes it, such as ``ipv4:10.0.0.1:5000`` and ``unix:``."""
    family, _, rest = peer.partition(":")
    return THIS_HOST if family == "unix" else _client_at(rest.rpartition(":")[0])


@lru_cache(1024)
def _client_at(host: str) -> str:
    """The client at an address, in brackets if it is of IPv6; gRPC writes these as %5B and %5D."""
    name = unquote(host).strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return f"host: {name}"
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return THIS_HOST
    if isinstance(address, ipaddress.IPv6Address):
        return f"host: {ipaddress.IPv6Network((address, _PREFIX), strict=False)}"
    return f"host: {address}"


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second, and how many may come at once."""

    per_second: float
    burst: int


class ClientRates(Protocol):
    """Rates of clients' calls."""

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
        """True if there may be another bucket; forgets the one that was used longest ago if that is full again."""
        if len(self._buckets) < _MAX_CLIENTS:
            return True
        oldest = next(iter(self._buckets))
        if self._level(self._buckets[oldest], now) < self._rate.burst:
            return False
        del self._buckets[oldest]
        return True

    def _level(self, bucket: tuple[float, float], now: float) -> float:
        level, seen = bucket
        return min(self._rate.burst, level + (now - seen) * self._rate.per_second)
