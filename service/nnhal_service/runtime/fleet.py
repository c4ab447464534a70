"""The devices that the framework knows."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.remote import DeviceIdentity, RemoteDevice
from nnhal.types import Capabilities, DeviceType, ErrorStatus, Extension

_log = structlog.get_logger(__name__)
_CLIENT_NAME = "nnhal-framework"
_GETTER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A device that answers, and what it said of itself."""

    name: str
    remote: RemoteDevice
    identity: DeviceIdentity

    @property
    def version(self) -> str:
        """The driver and its version."""
        return self.identity.version

    @property
    def type(self) -> DeviceType:
        """What kind of processor it is."""
        return self.identity.type

    @property
    def capabilities(self) -> Capabilities:
        """Its performance figures."""
        return self.identity.capabilities

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The extensions that it knows."""
        return self.identity.extensions


class Fleet:
    """Devices by name, in order of preference. Connects when a device is first needed, and again when it came back.

    A device is registered when it is connected: it says what it is, and a process that fails to, takes too long, or
    answers against the rules is refused as long as it runs. What a name was first registered as holds for the life of
    the fleet: a process of another identity that comes up under the name is refused too, since plans were made for the
    first one. Starting what was registered, or the framework anew, ends that. Other devices are not affected.

    Safe to use from several threads.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], getter_seconds: float = _GETTER_SECONDS) -> None:
        """``getter_seconds`` is what a device may take for each thing that it says of itself."""
        self._entries = {name: _Entry(name, endpoint, getter_seconds) for name, endpoint in endpoints.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All devices, whether they answer or not."""
        return tuple(self._entries)

    def get(self, name: str) -> FleetMember:
        """A device.

        Raises DeadObjectError where it is not there, DEVICE_UNAVAILABLE where it is refused, and LookupError for an
        unknown name.
        """
        if name not in self._entries:
            raise LookupError(f"no device {name!r}; there are {', '.join(self._entries) or 'none'}")
        return self._entries[name].member()

    def available(self, names: Sequence[str] = ()) -> list[FleetMember]:
        """Those of the named devices that answer, in the order given; of all where none are named."""
        members = []
        for name in names or self.names:
            with suppress(NnhalError):
                members.append(self.get(name))
        return members

    def close(self) -> None:
        """End the sessions with all devices."""
        for entry in self._entries.values():
            entry.close()


class _Entry:
    """One name: the process that answers to it, or why that is refused, and what the name was registered as."""

    def __init__(self, name: str, endpoint: Endpoint, getter_seconds: float) -> None:
        self._name = name
        self._endpoint = endpoint
        self._getter_seconds = getter_seconds
        self._lock = threading.Lock()
        self._remote: RemoteDevice | None = None
        self._refusal = ""
        self._identity: DeviceIdentity | None = None

    def member(self) -> FleetMember:
        """The device. Raises as ``Fleet.get``."""
        with self._lock:
            if self._remote is not None and self._remote.gone:
                _log.warning("a device is gone", device=self._name)
                self._disconnect()
            remote = self._remote or self._connect()
            if self._refusal or self._identity is None:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"device {self._name!r} is refused: {self._refusal}")
            return FleetMember(self._name, remote, self._identity)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._remote is not None:
            self._remote.close()
        self._remote = None

    def _connect(self) -> RemoteDevice:
        """Open a session; it stays open where the device is refused, so that its end is noticed."""
        try:
            remote = RemoteDevice(self._endpoint, _CLIENT_NAME)
        except DeadObjectError:
            raise
        except NnhalError as error:
            _log.warning("a device refuses the framework", device=self._name, reason=str(error))
            raise
        try:
            self._refusal = self._register(remote)
        except BaseException:
            remote.close()
            raise
        if self._refusal:
            _log.warning("a device is refused", device=self._name, reason=self._refusal)
        self._remote = remote
        return remote

    def _register(self, remote: RemoteDevice) -> str:
        """Learn what a device is; the reason where it is to be refused. Raises DeadObjectError where it dies."""
        try:
            identity = remote.identity(self._getter_seconds)
        except DeadObjectError as error:
            _log.warning("a device died while it was registered", device=self._name, reason=str(error))
            raise
        except NnhalError as error:
            return str(error)
        self._identity = self._identity or identity
        if identity == self._identity:
            return ""
        different = ", ".join(self._identity.differences(identity))
        return (
            f"it was registered as {self._identity.version!r}; what answers now is {identity.version!r} and differs in "
            f"{different}"
        )
