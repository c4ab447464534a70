"""A budget for what a process copies of its clients' files: models, constants, compilations.

A file may be sparse, so that it costs its client nothing, and whoever reads it all of its length.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import HalError
from nnhal.types import ErrorStatus


class CopyBudget:
    """Bytes that copies share. Safe to use from several threads."""

    def __init__(self, limit: int, setting: str) -> None:
        """``limit`` in bytes; ``setting`` is its name in refusals."""
        self._limit = limit
        self._setting = setting
        self._lock = threading.Lock()
        self._held = 0
        # Finalizers run at any moment, even in a thread that holds the lock.
        self._returned: deque[int] = deque()

    @property
    def held(self) -> int:
        """Bytes that are charged now."""
        with self._lock:
            return self._settled()

    def allocate(self, size: int, what: str) -> Bytes:
        """Return memory for a copy of ``what``, which is charged until its last view is gone.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if it does not fit.
        """
        self._take(size, what)
        try:
            memory = np.empty(size, np.uint8)
        except MemoryError:
            self._returned.append(size)
            raise
        self._give_with(memory, size)
        return np.frombuffer(memory.data, np.uint8)

    def charge_for(self, owner: object, size: int, what: str) -> None:
        """Charge bytes until an object is collected. Raises RESOURCE_EXHAUSTED_TRANSIENT if they do not fit."""
        self._take(size, what)
        self._give_with(owner, size)

    @contextmanager
    def charged(self, size: int, what: str) -> Iterator[None]:
        """Charge bytes while the context lasts. Raises RESOURCE_EXHAUSTED_TRANSIENT if they do not fit."""
        self._take(size, what)
        try:
            yield
        finally:
            self._returned.append(size)

    def _take(self, size: int, what: str) -> None:
        with self._lock:
            held = self._settled()
            if held + size > self._limit:
                others = f", and others take {held}" if size <= self._limit else ""
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{what} takes {size} bytes{others}; all together may take {self._limit} ({self._setting})",
                )
            self._held += size

    def _give_with(self, owner: object, size: int) -> None:
        weakref.finalize(owner, self._returned.append, size).atexit = False

    def _settled(self) -> int:
        while self._returned:
            self._held -= self._returned.popleft()
        return self._held
