"""The devices that the framework knows."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal.types import Capabilities, DeviceType, Extension

_log = structlog.get_logger(__name__)
_CLIENT_NAME = "nnhal-framework"


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A device that answers, and what it said of itself."""

    name: str
    remote: RemoteDevice
    version: str
    type: DeviceType
    capabilities: Capabilities
    extensions: tuple[Extension, ...] = ()


class Fleet:
    """Devices by name, in order of preference. Connects when a device is first needed, and again when it came back.

    Safe to use from several threads.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = dict(endpoints)
        self._members: dict[str, FleetMember] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """All devices, whether they answer or not."""
        return tuple(self._endpoints)

    def get(self, name: str) -> FleetMember:
        """A device. Raises DeadObjectError where it is not there, and LookupError for an unknown name."""
        if name not in self._endpoints:
            raise LookupError(f"no device {name!r}; there are {', '.join(self._endpoints) or 'none'}")
        with self._lock:
            member = self._members.get(name)
            if member is not None and not member.remote.gone:
                return member
            if member is not None:
                _log.warning("a device is gone", device=name)
                member.remote.close()
                del self._members[name]
            member = _connect(name, self._endpoints[name])
            self._members[name] = member
            return member

    def available(self, names: Sequence[str] = ()) -> list[FleetMember]:
        """Those of the named devices that answer, in the order given; of all where none are named."""
        members = []
        for name in names or self.names:
            try:
                members.append(self.get(name))
            except DeadObjectError:
                continue
            except NnhalError as error:
                _log.warning("a device is refused", device=name, reason=str(error))
        return members

    def close(self) -> None:
        """End the sessions with all devices."""
        with self._lock:
            for member in self._members.values():
                member.remote.close()
            self._members.clear()


def _connect(name: str, endpoint: Endpoint) -> FleetMember:
    remote = RemoteDevice(endpoint, _CLIENT_NAME)
    try:
        return FleetMember(
            name,
            remote,
            remote.version(),
            remote.device_type(),
            remote.capabilities(),
            remote.supported_extensions(),
        )
    except BaseException:
        remote.close()
        raise
