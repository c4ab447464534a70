"""Descriptors by id: those that a session's client has put, and those that it may take."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.link.channel import MAX_DESCRIPTORS_PER_MESSAGE, MAX_MESSAGE_BYTES
from nnhal.types import ErrorStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one session, and on the number of sessions."""

    message_bytes: int = MAX_MESSAGE_BYTES
    descriptors_per_message: int = MAX_DESCRIPTORS_PER_MESSAGE
    descriptors_per_session: int = 256
    sessions: int = 128


class _Offer(NamedTuple):
    descriptor: Descriptor
    owner: int


class DescriptorTable:
    """The descriptors of one session. Ids are never used twice. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._next = 1
        self._put: dict[int, Descriptor] = {}
        self._offered: dict[int, _Offer] = {}

    def __len__(self) -> int:
        return len(self._put) + len(self._offered)

    def put(self, descriptors: list[Descriptor]) -> list[int]:
        """Keep the client's descriptors and return their ids. Raises RESOURCE_EXHAUSTED_TRANSIENT beyond the limit."""
        with self._lock:
            self._require_room(len(descriptors))
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
        with self._lock:
            self._require_room(1)
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

    def _require_room(self, count: int) -> None:
        if len(self) + count > self._limit:
            raise HalError(
                ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                f"the session holds {len(self)} descriptors and would take {count} more, at most {self._limit} "
                "are allowed",
            )

    def _add(self, table: dict[int, T], item: T) -> int:
        number, self._next = self._next, self._next + 1
        table[number] = item
        return number
