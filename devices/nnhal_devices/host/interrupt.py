"""Interrupting those who wait for fences in the name of a session."""

from __future__ import annotations

import os
import threading

from nnhal.descriptor import Descriptor
from nnhal.exhaustion import host_failure


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
