"""The memory of a process that serves large messages, and settings of the C library's allocator for it."""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from nnhal_hosting.own_memory import return_freed_memory

if TYPE_CHECKING:
    from nnhal_service.serving.loop import ServingLoop

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD and the others of malloc.h
_KEPT_BYTES = 64 << 20
_LARGEST_IN_HEAP = 32 << 20
"""The most that glibc allows."""
_IDLE_SECONDS = 3.0


def keep_freed_memory() -> None:
    """Let freed blocks of up to 32 MiB be used again, and keep up to 64 MiB of them. Call it before threads start.

    By default glibc returns what the few buffers of a request needed to the system after each request, and each page
    is then faulted in again: that doubled the processor time of a request of 1 MiB. All threads share one arena, since
    ``malloc_trim`` leaves the free end of every other arena as it is, up to 64 MiB of each. Does nothing with another
    C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
        mallopt(_ARENA_MAX, 1)


def _collect_and_return() -> None:
    gc.collect()  # answers to clients that have left may be held by reference cycles
    return_freed_memory()


class FreedMemory:
    """Return of the memory that large requests have freed to the system, once none has ended for three seconds.

    Until then the next request uses it again.
    """

    def __init__(self, loop: ServingLoop) -> None:
        self._loop = loop
        self._last_end = 0.0
        self._is_due = False

    def note_end(self) -> None:
        """Note that a large request has ended. May be called from any thread."""
        self._last_end = time.monotonic()
        if not self._is_due:
            self._is_due = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call(self._return)

    def _return(self) -> None:
        left = self._last_end + _IDLE_SECONDS - time.monotonic()
        if left > 0:
            self._loop.asyncio.call_later(left, self._return)
        else:
            self._is_due = False
            self._loop.asyncio.run_in_executor(None, _collect_and_return)
