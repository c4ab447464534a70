"""The launches of one client that have not ended."""

from __future__ import annotations

import itertools
import os
import threading
from typing import ClassVar, Protocol, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import general_failure
from nnhal.exhaustion import host_failure
from nnhal.shares import Tenant
from nnhal.types import FencedExecutionInfo
from nnhal_hosting.descriptors import SessionShares


class Interrupt:
    """Ends waits: for good when the session is over, or once, so that those who wait look around and wait again.

    Safe to use from several threads. Only sessions that launch executions have a descriptor of it: a session must not
    need more descriptors than its link.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = False
        self._descriptor: Descriptor | None = None

    @property
    def descriptor(self) -> Descriptor:
        """Becomes readable when waits are to end: another one afterwards, unless the session is over.

        Raises RESOURCE_EXHAUSTED_TRANSIENT.
        """
        with self._lock:
            if self._descriptor is None:
                try:
                    self._descriptor = Descriptor(os.eventfd(1 if self._over else 0, os.EFD_CLOEXEC))
                except OSError as error:
                    raise host_failure("a descriptor for the execution", error) from error
            return self._descriptor

    def wake(self) -> None:
        """Wake all who wait, once."""
        with self._lock:
            awaited = self._descriptor
            if not self._over:
                self._descriptor = None
        _signal(awaited)

    def end(self) -> None:
        """Wake all who wait, and let nobody wait any more."""
        with self._lock:
            self._over = True
            awaited = self._descriptor
        _signal(awaited)


def _signal(descriptor: Descriptor | None) -> None:
    if descriptor is not None:
        os.eventfd_write(descriptor.fileno(), 1)


class FencedExecutionCallback:
    """End of one launched execution, for its client."""

    kind: ClassVar[str] = "callback"

    def __init__(self) -> None:
        self._info: FencedExecutionInfo | None = None

    def info(self) -> FencedExecutionInfo:
        """IFencedExecutionCallback.getExecutionInfo. Raises GENERAL_FAILURE until the execution has ended."""
        info = self._info
        if info is None:
            general_failure("the fenced execution has not ended")
        return info

    def end(self, info: FencedExecutionInfo) -> None:
        """Record how the execution ended."""
        self._info = info


_numbers = itertools.count(1)
T = TypeVar("T")


class Launches:
    """Launched executions and syncs, each with a number that is never used twice. Safe to use from several threads."""

    def __init__(self, shares: SessionShares) -> None:
        self._shares = shares
        self._lock = threading.Lock()
        self._pending: dict[object, tuple[int, Tenant, int]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def enter(self, launched: object, fences: int) -> None:
        """Note that something was launched, which waits for so many fences. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        client = self._shares.launches.take(1, "a launch")
        try:
            self._shares.descriptors.take(fences + 1, "a launch")
        except BaseException:
            self._shares.launches.give_back(client, 1)
            raise
        with self._lock:
            self._pending[launched] = next(_numbers), client, fences + 1

    def leave(self, launched: object) -> None:
        """Note that it has ended."""
        with self._lock:
            _, client, descriptors = self._pending.pop(launched)
        self._shares.launches.give_back(client, 1)
        self._shares.descriptors.give_back(client, descriptors)

    def all(self, kind: type[T]) -> dict[int, T]:
        """Return those of a kind, by number."""
        with self._lock:
            return {number: launched for launched, (number, *_) in self._pending.items() if isinstance(launched, kind)}


class LaunchingClient(Protocol):
    """Parts of its client's session that a launch needs."""

    launched: Launches

    interrupt: Interrupt
    """Ends the waits for fences."""
