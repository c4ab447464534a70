"""A budget for the memory that the requests of all clients hold at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_service.serving.errors import ErrorKind, ServingError

FREE_COPIES = 1 << 19
"""Bytes of copies that each request may hold beside its charge."""
LARGE_BYTES = 1 << 20
"""Bytes from which on a request leaves memory behind that is worth returning."""


class RequestMemoryBudget:
    """Bytes that requests share. Safe to use from several threads."""

    __slots__ = ("_held", "_limit", "_lock", "large_ended", "notify_others", "reclaim")

    def __init__(self, limit: int = 0, held: SharedNumber | None = None) -> None:
        """``limit`` is in bytes; 0 for no limit. ``held`` are the bytes, if other processes share the budget."""
        self._limit = limit
        self._lock = threading.Lock()
        self._held = SharedNumber() if held is None else held
        self.reclaim: Callable[[], bool] = lambda: False
        """Gives back bytes that are kept for later; False if there are none. Called when bytes are short."""
        self.large_ended: Callable[[], None] = lambda: None
        """Called when a charge of LARGE_BYTES or more is released."""
        self.notify_others: Callable[[], None] = lambda: None
        """Has the processes that share the budget give back what they keep for later. Called when bytes are refused."""

    @property
    def held(self) -> int:
        """Bytes that are charged now."""
        return self._held.total

    def charge(self, size: int = 0) -> Charge:
        """Take bytes for one request until the charge is released. Raises RESOURCE_EXHAUSTED if too few are left."""
        if size:
            self.take(size, 0)
        return Charge(self, size)

    def hold(self, size: int) -> Charge:
        """Take bytes that are there already, even if they are too many, until the charge is released."""
        with self._lock:
            self._held.add(size)
        return Charge(self, size)

    def take(self, size: int, already: int) -> None:
        """Take bytes for a request that holds ``already`` others. Raises RESOURCE_EXHAUSTED, and then takes none."""
        held_by = self._held
        while True:
            with self._lock:
                held_by.parts[held_by.own] += size
                held = sum(held_by.parts) if self._limit else 0
                if held <= self._limit:
                    return
                held_by.parts[held_by.own] -= size
            if size + already > self._limit or not self.reclaim():
                self.notify_others()
                raise self._refusal(already + size, held - size - already)

    def give_back(self, size: int) -> None:
        """Undo ``take``."""
        held_by = self._held
        with self._lock:
            held_by.parts[held_by.own] -= size
        if size >= LARGE_BYTES:
            self.large_ended()

    def _refusal(self, size: int, others: int) -> ServingError:
        beside = f" while others hold {others}" if size <= self._limit else ""
        return ServingError(
            ErrorKind.RESOURCE_EXHAUSTED,
            f"the request holds {size} bytes or more{beside}; all together may hold {self._limit}, "
            "which --request-memory allows",
        )


class Charge:
    """The bytes that one request holds. Use as a context, which releases them, in one thread at a time."""

    __slots__ = ("_budget", "_free", "_size")

    def __init__(self, budget: RequestMemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._free = FREE_COPIES

    def grow(self, size: int) -> None:
        """Take more bytes. Raises RESOURCE_EXHAUSTED, and then keeps what it has."""
        if size:
            self._budget.take(size, self._size)
            self._size += size

    def copy(self, size: int) -> None:
        """Take bytes for a copy of what the request has, or for its response. The first FREE_COPIES of them are free.

        Raises as ``grow``.
        """
        free = min(size, self._free)
        self._free -= free
        if size > free:
            self.grow(size - free)

    def release(self) -> None:
        """Give all bytes back; harmless when repeated."""
        size, self._size = self._size, 0
        if size:
            self._budget.give_back(size)

    def __enter__(self) -> Charge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
