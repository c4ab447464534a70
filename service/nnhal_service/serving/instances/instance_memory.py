"""The memory of the instances of all models of a process, within the limit that their requests have."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol
from weakref import WeakSet

from nnhal.memory import MappedPool
from nnhal_service.serving.requests.request import no_limit

FREE_BYTES = 1 << 19
"""What each instance may take without being counted: most take no more."""


class IdleInstances(Protocol):
    """The instances of a model that are kept for their next use."""

    @property
    def idle_bytes(self) -> int:
        """Their counted bytes."""

    def release_oldest(self) -> bool:
        """Release the one that was used longest ago, of those that count; False if there is none."""


class InstanceMemory:
    """Counts the memory of instances. Safe to use from several threads."""

    def __init__(self, take: Callable[[int], None] = no_limit, give_back: Callable[[int], None] = no_limit) -> None:
        """``take`` counts bytes, and raises RESOURCE_EXHAUSTED if there may be no more; ``give_back`` undoes it."""
        self._take = take
        self._give_back = give_back
        self._models: WeakSet[IdleInstances] = WeakSet()
        # The garbage collector may find a mapping while this thread, or any other, holds the lock of the limit.
        self._unmapped: deque[int] = deque()

    def add(self, model: IdleInstances) -> None:
        """Release instances of a model too when memory is short."""
        self._models.add(model)

    def take(self, size: int) -> int:
        """Count an instance of ``size`` bytes; returns how many of them count. Raises RESOURCE_EXHAUSTED."""
        counted = max(0, size - FREE_BYTES)
        if counted:
            self._settle()
            self._take(counted)
        return counted

    def give_back(self, counted: int) -> None:
        """Undo ``take``."""
        if counted:
            self._give_back(counted)

    def until_unmapped(self, pool: MappedPool, counted: int) -> Callable[[], object]:
        """Undo ``take`` once the memory is unmapped, or at the first call of what is returned."""
        release = pool.when_unmapped(partial(self._unmapped.append, counted))

        def at_once() -> None:
            release()
            self._settle()

        return at_once

    def reclaim(self) -> bool:
        """Give back what is unmapped, or release an instance that waits for its next use; False if there is neither.

        May be called in the loop.
        """
        if self._settle():
            return True
        models = sorted(self._models, key=lambda model: model.idle_bytes, reverse=True)
        return any(model.release_oldest() for model in models)

    def reclaim_all(self) -> None:
        """Release all instances that wait for their next use, and memory that is only in reference cycles.

        A process without requests may never get to collect those.
        """
        gc.collect()
        while self.reclaim():
            pass

    def _settle(self) -> bool:
        has_any = bool(self._unmapped)
        while self._unmapped:
            try:
                self._give_back(self._unmapped.popleft())
            except IndexError:  # another thread was faster
                break
        return has_any
