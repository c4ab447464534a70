"""The devices that the framework knows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

import structlog

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.remote import DeviceIdentity, RemoteDevice
from nnhal.types import Capabilities, DeviceType, ErrorStatus, Extension

_log = structlog.get_logger(__name__)
_CLIENT_NAME = "nnhal-framework"
_GETTER_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_IMPATIENCE_SECONDS = 0.5
"""What a caller waits for a device that has kept others waiting for long."""
_RETURN_SECONDS = 10.0
"""How long after its death a device may be expected back."""
_RETURN_PAUSE_SECONDS = 0.05
_never = threading.Event()


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

    A process that is there and does not answer, as one that was stopped, costs a caller ``patience``, and those that
    follow less: it is connected in a thread of its own, which goes on when the process does.

    Safe to use from several threads.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        getter_seconds: float = _GETTER_SECONDS,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """``getter_seconds`` is what a device may take for each thing that it says of itself, ``patience`` how long it
        may be silent.
        """
        self._entries = {name: _Entry(name, endpoint, getter_seconds, patience) for name, endpoint in endpoints.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All devices, whether they answer or not."""
        return tuple(self._entries)

    def get(self, name: str) -> FleetMember:
        """A device.

        Raises DeadObjectError where it is not there, DEVICE_UNAVAILABLE where it is refused or does not answer, and
        LookupError for an unknown name.
        """
        if name not in self._entries:
            raise LookupError(f"no device {name!r}; there are {', '.join(self._entries) or 'none'}")
        return self._entries[name].member()

    def awaited(self, name: str) -> FleetMember:
        """A device; one that has died lately is waited for, since somebody may start it again. Raises as ``get``."""
        while True:
            try:
                return self.get(name)
            except DeadObjectError:
                if not self._entries[name].may_return:
                    raise
            _never.wait(_RETURN_PAUSE_SECONDS)

    def available(self, names: Sequence[str] = ()) -> list[FleetMember]:
        """Those of the named devices that answer at this moment, in the order given; of all where none are named."""
        members = []
        for name in names or self.names:
            with suppress(NnhalError):
                member = self.get(name)
                if member.remote.responds:
                    members.append(member)
                elif not member.remote.gone:
                    _log.warning("a device does not answer; it is left out", device=name)
        return members

    def close(self) -> None:
        """End the sessions with all devices."""
        for entry in self._entries.values():
            entry.close()


class _Entry:
    """One name: the process that answers to it, or why that is refused, and what the name was registered as."""

    def __init__(self, name: str, endpoint: Endpoint, getter_seconds: float, patience: float) -> None:
        self._name = name
        self._endpoint = endpoint
        self._getter_seconds = getter_seconds
        self._patience = patience
        self._lock = threading.Lock()
        self._closed = False
        self._attempt: _Attempt | None = None
        self._kept_waiting = False
        self._remote: RemoteDevice | None = None
        self._refusal = ""
        self._identity: DeviceIdentity | None = None
        self._died: float | None = None

    @property
    def may_return(self) -> bool:
        """Whether it was there, and died lately."""
        return self._died is not None and time.monotonic() - self._died < _RETURN_SECONDS

    def member(self) -> FleetMember:
        """The device. Raises as ``Fleet.get``."""
        with self._lock:
            if self._remote is not None and self._remote.gone:
                _log.warning("a device is gone", device=self._name)
                self._died = time.monotonic()
                self._disconnect()
            attempt = None if self._remote is not None else self._attempt or self._begin()
            remote, refusal = self._remote, self._refusal
        if attempt is not None:
            remote, refusal = self._await(attempt)
        if remote is None or refusal or self._identity is None:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"device {self._name!r} is refused: {refusal}")
        return FleetMember(self._name, remote, self._identity)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._remote is not None:
            self._remote.close()
        self._remote = None

    def _begin(self) -> _Attempt:
        """Begin to connect. There is one attempt at a time; the lock is held."""
        attempt = self._attempt = _Attempt(time.monotonic(), Future())
        threading.Thread(target=self._try, args=(attempt,), name=f"connect-{self._name}", daemon=True).start()
        return attempt

    def _await(self, attempt: _Attempt) -> tuple[RemoteDevice, str]:
        """What comes of an attempt. Raises DEVICE_UNAVAILABLE where that takes too long."""
        patience = _IMPATIENCE_SECONDS if self._kept_waiting else self._patience
        try:
            return attempt.outcome.result(max(0.0, attempt.started + patience - time.monotonic()))
        except TimeoutError:
            if not self._kept_waiting:
                _log.warning("a device does not answer", device=self._name)
            self._kept_waiting = True
            message = f"device {self._name!r} is there and has not answered for {patience} s"
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, message) from None

    def _try(self, attempt: _Attempt) -> None:
        """Make an attempt, and tell those who wait what came of it."""
        try:
            remote, refusal = self._connect()
        except BaseException as error:
            with self._lock:
                self._attempt = None
                self._kept_waiting = time.monotonic() - attempt.started > self._patience
            attempt.outcome.set_exception(error)
            return
        with self._lock:
            self._attempt, self._kept_waiting = None, False
            if self._closed:
                remote.close()
            else:
                self._remote, self._refusal = remote, refusal
        attempt.outcome.set_result((remote, refusal))

    def _connect(self) -> tuple[RemoteDevice, str]:
        """Open a session; it stays open where the device is refused, so that its end is noticed."""
        try:
            remote = RemoteDevice(self._endpoint, _CLIENT_NAME, self._patience)
        except DeadObjectError:
            raise
        except NnhalError as error:
            _log.warning("a device refuses the framework", device=self._name, reason=str(error))
            raise
        try:
            refusal = self._register(remote)
        except BaseException:
            remote.close()
            raise
        if refusal:
            _log.warning("a device is refused", device=self._name, reason=refusal)
        return remote, refusal

    def _register(self, remote: RemoteDevice) -> str:
        """Learn what a device is; the reason where it is to be refused.

        Raises DeadObjectError where it dies, TransportError where it does not answer at all.
        """
        try:
            identity = remote.identity(self._getter_seconds)
        except DeadObjectError as error:
            _log.warning("a device died while it was registered", device=self._name, reason=str(error))
            raise
        except NnhalError as error:
            if isinstance(error, TransportError) and not remote.responds:
                raise  # it has stopped, and may go on
            return str(error)
        self._identity = self._identity or identity
        if identity == self._identity:
            return ""
        different = ", ".join(self._identity.differences(identity))
        return (
            f"it was registered as {self._identity.version!r}; what answers now is {identity.version!r} and differs in "
            f"{different}"
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """To connect to a device: when it began, and the session that comes of it with the reason of a refusal."""

    started: float
    outcome: Future[tuple[RemoteDevice, str]]
