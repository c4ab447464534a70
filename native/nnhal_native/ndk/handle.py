"""Objects of the library that Python owns, and their ends."""

from __future__ import annotations

import os
import queue
import weakref
from functools import cache, partial
from typing import Any, Self

from nnhal.threads import LastingThread
from nnhal_native.ndk.library import ffi, free


def _free_all(garbage: queue.SimpleQueue[tuple[str, Any, object]]) -> None:
    while True:
        kind, pointer, kept = garbage.get()
        free(kind, pointer)
        del kept


@cache
def _garbage(process: int) -> queue.SimpleQueue[tuple[str, Any, object]]:
    """Start the thread that frees objects which nobody closed, and return what it reads. A child needs its own."""
    garbage: queue.SimpleQueue[tuple[str, Any, object]] = queue.SimpleQueue()
    LastingThread(partial(_free_all, garbage), f"ndk_garbage_{process}").started()
    return garbage


class Handle:
    """An object of the library. Use as a context, or ``close`` it.

    One that is not closed is freed by a thread of its own: a free may wait for an execution and asks the framework,
    which the thread in which Python happens to collect garbage may be needed for.
    """

    def __init__(self, kind: str, pointer: Any, kept: object = None) -> None:
        """``kind`` is its type's name without ``ANeuralNetworks``; ``kept`` lives until it is freed."""
        self.pointer = pointer
        """The handle that functions take. They refuse it with UNEXPECTED_NULL when it is closed."""
        self._kind = kind
        self._end = weakref.finalize(self, _garbage(os.getpid()).put, (kind, pointer, kept))
        self._end.atexit = False

    def close(self) -> None:
        """Release it. Harmless when repeated."""
        if self._end.detach():
            pointer, self.pointer = self.pointer, ffi.NULL
            free(self._kind, pointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
