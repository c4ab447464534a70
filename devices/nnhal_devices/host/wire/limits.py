"""What clients of the wire may use of the device's host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_devices.host.settings import DeviceSettings


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of a device's wire. Each has a setting ``NNHAL_DEVICE_WIRE_`` and its name in capitals."""

    sessions: int
    """Sessions that may be open at a time."""
    session_bytes: int
    """Bytes that one session may hold: memory of executions and buffers, constants of models, unfinished uploads."""
    upload_bytes: int
    """Bytes of one constant."""
    constant_bytes: int
    """Bytes of constants that are kept for later models and sessions. The least recently used are dropped first."""
    objects: int
    """Prepared models, executions and buffers that one session may own."""
    message_bytes: int
    """Bytes of one message."""

    @classmethod
    def of(cls, settings: DeviceSettings) -> WireLimits:
        """The limits that a device process was started with."""
        return cls(
            settings.wire_sessions,
            settings.wire_session_bytes,
            settings.wire_upload_bytes,
            settings.wire_constant_bytes,
            settings.wire_objects,
            settings.wire_message_bytes,
        )


class SessionBudget:
    """The bytes and objects that one session holds. Safe to use from several threads."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._bytes = 0
        self._objects = 0

    @property
    def held_bytes(self) -> int:
        """The bytes that the session holds."""
        return self._bytes

    def take(self, size: int, what: str, objects: int = 1) -> None:
        """Count bytes and objects for ``what``. Raises RESOURCE_EXHAUSTED_TRANSIENT if they are too many."""
        limits = self._limits
        with self._lock:
            if self._bytes + size > limits.session_bytes:
                exhausted(
                    f"{what} needs {size} bytes, and the session holds {self._bytes}",
                    f"at most {limits.session_bytes} in all",
                    "session_bytes",
                )
            if self._objects + objects > limits.objects:
                exhausted(f"the session owns {self._objects} objects", f"at most {limits.objects}", "objects")
            self._bytes += size
            self._objects += objects

    @contextmanager
    def taken_for(self, size: int, what: str) -> Iterator[None]:
        """Count the bytes of an object that is made within the context; they are given back if that fails.

        Raises as ``take``.
        """
        self.take(size, what)
        try:
            yield
        except BaseException:
            self.give(size)
            raise

    def give(self, size: int, objects: int = 1) -> None:
        """Count bytes and objects no more."""
        with self._lock:
            self._bytes -= size
            self._objects -= objects


def exhausted(got: str, expected: str, setting: str) -> NoReturn:
    """Raise RESOURCE_EXHAUSTED_TRANSIENT for a limit, with the setting that it has."""
    name = f"NNHAL_DEVICE_WIRE_{setting.upper()}"
    raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{got}, expected {expected} ({name})")
