"""Limits of the wire's clients on the device's host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from nnhal.errors import HalError
from nnhal.shares import Shares, Tenant, acting_for, tenant
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
    """The bytes and objects that one session holds, which its client's clients share. Safe to use from threads."""

    def __init__(self, limits: WireLimits) -> None:
        self._bytes = Shares(limits.session_bytes, "bytes", "NNHAL_DEVICE_WIRE_SESSION_BYTES", leaves=8)
        self._objects = Shares(limits.objects, "objects", "NNHAL_DEVICE_WIRE_OBJECTS", leaves=8)

    @property
    def held_bytes(self) -> int:
        """The bytes that the session holds."""
        return self._bytes.held

    def take(self, size: int, what: str, objects: int = 1) -> Tenant:
        """Count bytes and objects for ``what``, in the name of the client that is returned.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if they are too many.
        """
        with acting_for(Tenant(tenant().levels[1:])):  # the first is the session's own client
            client = self._bytes.take(size, what)
            try:
                return self._objects.take(objects, what)
            except HalError:
                self._bytes.give_back(client, size)
                raise

    @contextmanager
    def taken_for(self, size: int, what: str) -> Iterator[Tenant]:
        """Count the bytes of an object that is made within the context; they are given back if that fails.

        Raises as ``take``.
        """
        client = self.take(size, what)
        try:
            yield client
        except BaseException:
            self.give(client, size)
            raise

    def give(self, client: Tenant, size: int, objects: int = 1) -> None:
        """Count bytes and objects of a client no more."""
        self._bytes.give_back(client, size)
        self._objects.give_back(client, objects)


def exhausted(got: str, expected: str, setting: str) -> NoReturn:
    """Raise RESOURCE_EXHAUSTED_TRANSIENT for a limit, with the setting that it has."""
    name = f"NNHAL_DEVICE_WIRE_{setting.upper()}"
    raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{got}, expected {expected} ({name})")
