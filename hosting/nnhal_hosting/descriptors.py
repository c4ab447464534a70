"""Descriptors by id: those that a session's client has put, and those that it may take."""

from __future__ import annotations

import resource
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.link.channel import MAX_DESCRIPTORS_PER_MESSAGE, MAX_MESSAGE_BYTES
from nnhal.shares import Shares

T = TypeVar("T")
MAX_OBJECTS = 4096
"""Objects of one session: prepared models, executions, bursts, buffers, callbacks."""
ALL_OBJECTS = 32 * MAX_OBJECTS
"""Objects of all sessions."""
MAX_LAUNCHED = 256
"""Fenced executions of one session that have not ended; each has a thread."""
ALL_LAUNCHED = 16 * MAX_LAUNCHED
"""Fenced executions of all sessions that have not ended."""
_MOST_DESCRIPTORS = 1 << 20


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one session, and on what all sessions have together."""

    message_bytes: int = MAX_MESSAGE_BYTES
    descriptors_per_message: int = MAX_DESCRIPTORS_PER_MESSAGE
    descriptors: int = 0
    """Descriptors that all sessions together own; 0 for three quarters of those that it may have open."""
    sessions: int = 128
    place: str = "this process"
    """What the process is called in refusals, such as "device cpu_acc"."""
    prefix: str = "NNHAL_"
    """How the names of the settings begin."""


class SessionShares:
    """Limits that the sessions of a process share."""

    def __init__(self, limits: SessionLimits) -> None:
        """The last quarter of the process's descriptors is for connections, files, and its own ends of channels."""
        open_files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_DESCRIPTORS)
        descriptors = limits.descriptors or open_files * 3 // 4
        setting = f"{limits.prefix}MAX_DESCRIPTORS"
        self.descriptors = Shares(descriptors, f"descriptors at {limits.place}", setting)
        self.objects = Shares(ALL_OBJECTS, f"objects at {limits.place}", "", MAX_OBJECTS)
        launches = f"fenced executions that have not ended at {limits.place}"
        self.launches = Shares(ALL_LAUNCHED, launches, "", MAX_LAUNCHED)


class _Offer(NamedTuple):
    descriptor: Descriptor
    owner: int


class DescriptorTable:
    """The descriptors of one session. Ids are never used twice. Safe to use from several threads."""

    def __init__(self, shares: Shares) -> None:
        """Each counts in ``shares`` as long as it is open, for the client in whose name it came."""
        self._shares = shares
        self._lock = threading.Lock()
        self._next = 1
        self._put: dict[int, Descriptor] = {}
        self._offered: dict[int, _Offer] = {}

    def __len__(self) -> int:
        return len(self._put) + len(self._offered)

    def put(self, descriptors: list[Descriptor]) -> list[int]:
        """Keep the client's descriptors and return their ids. Raises RESOURCE_EXHAUSTED_TRANSIENT beyond the limit."""
        client = self._shares.take(len(descriptors))
        for descriptor in descriptors:
            self._shares.give_with(descriptor, client, 1)
        with self._lock:
            return [self._add(self._put, descriptor) for descriptor in descriptors]

    def get(self, number: int) -> Descriptor:
        """Return a descriptor that the client has put. Raises INVALID_ARGUMENT if the id is unknown."""
        with self._lock:
            descriptor = self._put.get(number)
        if descriptor is None:
            invalid_argument(f"descriptor {number} was not put on this link, or was dropped")
        return descriptor

    def all_put(self) -> list[Descriptor]:
        """Return the descriptors that the client has put and not dropped."""
        with self._lock:
            return list(self._put.values())

    def claim(self, numbers: Sequence[int]) -> list[Descriptor]:
        """Return descriptors that the client has put, and forget them. Raises INVALID_ARGUMENT if an id is unknown.

        Those that are known are forgotten, and closed, in that case too.
        """
        with self._lock:
            claimed = [self._put.pop(number, None) for number in numbers]
        found = [descriptor for descriptor in claimed if descriptor is not None]
        if len(found) < len(numbers):
            unknown = [number for number, descriptor in zip(numbers, claimed, strict=True) if descriptor is None]
            invalid_argument(f"descriptors {unknown} were not put on this link, were dropped, or are named twice")
        return found

    def drop(self, numbers: list[int]) -> None:
        """Forget descriptors that the client has put, or does not want to take; unknown ids are ignored."""
        with self._lock:
            for number in numbers:
                self._put.pop(number, None)
                self._offered.pop(number, None)

    def offer(self, descriptor: Descriptor, *, owner: int = 0) -> int:
        """Keep a descriptor until the client takes or drops it, or its owner is released; return its id.

        ``owner`` is the handle of what it belongs to, 0 for the session itself. Raises RESOURCE_EXHAUSTED_TRANSIENT.
        """
        self._shares.charge_for(descriptor)
        with self._lock:
            return self._add(self._offered, _Offer(descriptor, owner))

    def take(self, number: int) -> Descriptor:
        """Return a descriptor that was offered, and forget it. Raises INVALID_ARGUMENT if the id is not offered."""
        with self._lock:
            offer = self._offered.pop(number, None)
        if offer is None:
            invalid_argument(f"descriptor {number} is not offered, or was taken already, or its owner was released")
        return offer.descriptor

    def withdraw(self, owner: int) -> None:
        """Forget what is offered in the name of an owner; harmless if that is nothing."""
        with self._lock:
            for number in [number for number, offer in self._offered.items() if offer.owner == owner]:
                del self._offered[number]

    def close(self) -> None:
        """Forget every descriptor."""
        with self._lock:
            self._put.clear()
            self._offered.clear()

    def _add(self, table: dict[int, T], item: T) -> int:
        number, self._next = self._next, self._next + 1
        table[number] = item
        return number
