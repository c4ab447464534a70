"""A descriptor in reserve: who looks after others still sees them when clients have all the others."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from nnhal.descriptor import Descriptor

T = TypeVar("T")


class SpareDescriptor:
    """Is let go for something that needs one descriptor, and kept again afterwards. Safe to use from several threads.

    Another thread may be faster and take it; then it is kept again when there is one. None is kept before ``keep`` is
    called, since a process that a zygote forks closes all that are open.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Descriptor | None = None

    def keep(self) -> None:
        """Keep a descriptor from now on, if there is one."""
        with suppress(OSError):
            self._kept = Descriptor(os.eventfd(0, os.EFD_CLOEXEC))

    def used_for(self, act: Callable[[], T]) -> T:
        """Do something that has at most one descriptor at a time, and none when it ends.

        Raises what it raises: OSError if there is no descriptor even so, or something else is using this one.
        """
        try:
            return act()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._lock.acquire(blocking=False):
                raise
        try:
            if self._kept is not None:
                self._kept.close()
            return act()
        finally:
            self.keep()
            self._lock.release()


FOR_LOOKS = SpareDescriptor()
"""For reading a file or a folder of /proc, which takes a moment. A process that serves keeps it."""
