"""The memory that the messages of calls take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nnhal.errors import HalError
from nnhal.types import ErrorStatus


class MessageMemory:
    """Bytes that calls share. Safe to use from several threads."""

    def __init__(self, limit: int, setting: str = "") -> None:
        """``setting`` names the limit at the end of refusals."""
        self._limit = limit
        self._setting = setting
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes that are charged now."""
        return self._held

    @contextmanager
    def charged(self, size: int, what: str) -> Iterator[None]:
        """Charge bytes while the context lasts. Raises RESOURCE_EXHAUSTED_TRANSIENT if too few are left."""
        with self._lock:
            if self._held + size > self._limit:
                others = f" while others hold {self._held}" if size <= self._limit else ""
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{what} holds {size} bytes{others}; all together may hold {self._limit}{self._setting}",
                )
            self._held += size
        try:
            yield
        finally:
            with self._lock:
                self._held -= size
