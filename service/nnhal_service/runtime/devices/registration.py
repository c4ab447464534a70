"""One device of the fleet: the process behind a name, and the identity that the name was registered with."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from nnhal.calibration import DeviceCalibration
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.remote import DeviceIdentity, RemoteDevice
from nnhal.threads import BriefThread
from nnhal.types import Capabilities, DeviceType, ErrorStatus, Extension
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.devices.hangs import DeviceWait, HangWatch
from nnhal_service.runtime.devices.notes import Note, no_note

RETURN_SECONDS = 10.0
"""The time that after its death a device is expected back."""
_CLIENT_NAME = "nnhal-framework"
_IMPATIENCE_SECONDS = 0.5
"""The time that a caller waits for a device that has exceeded the patience of another caller."""
_LOOK_SECONDS = 0.05
"""Between attempts to connect a device that no caller waits for."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A device that answers, with its identity."""

    name: str
    remote: RemoteDevice
    identity: DeviceIdentity
    hangs: HangWatch
    """Looks after it while something runs on it."""
    calibration: DeviceCalibration | None = None
    """What was measured of this version of it on this machine, if plans are to be made by that."""

    @property
    def version(self) -> str:
        return self.identity.version

    @property
    def type(self) -> DeviceType:
        return self.identity.type

    @property
    def capabilities(self) -> Capabilities:
        return self.identity.capabilities

    @property
    def extensions(self) -> tuple[Extension, ...]:
        return self.identity.extensions


class Registration:
    """One name: the process behind it, or why that is refused, and the identity that was registered."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        getter_seconds: float,
        patience: float,
        stall_seconds: float = 0.0,
        note: Note = no_note,
        hangs: HangWatch | None = None,
        calibration: Mapping[str, DeviceCalibration] = MappingProxyType({}),
    ) -> None:
        self._calibration = calibration.get(name)
        self._name = name
        self._endpoint = endpoint
        self._getter_seconds = getter_seconds
        self._patience, self._stall_seconds = patience, stall_seconds
        self._note = note
        self._hangs = hangs or HangWatch(note=note)
        self._hangs.be_ready_for(name)
        self._lock = threading.Lock()
        self._closed = False
        self._attempt: _Attempt | None = None
        self._kept_waiting = False
        self._remote: RemoteDevice | None = None
        self._refusal = ""
        self._identity: DeviceIdentity | None = None
        self._died: float | None = None
        self._is_lost = False
        self._is_asleep = False
        self._trouble = "it has not been connected yet"
        self._looked = 0.0

    @property
    def may_return(self) -> bool:
        """Return whether it died recently. When one that sleeps continues, nobody knows."""
        return self._died is not None and not self._is_asleep and time.monotonic() - self._died < RETURN_SECONDS

    def member(self) -> FleetMember:
        """The device. Raises as ``Fleet.get`` does."""
        with self._lock:
            self._notice_death()
            attempt = None if self._remote is not None else self._attempt or self._begin()
            remote, refusal = self._remote, self._refusal
        if attempt is not None:
            try:
                remote, refusal = self._await(attempt)
            finally:
                del attempt  # as in _await
        if remote is None or refusal or self._identity is None:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"device {self._name!r} is refused: {refusal}")
        measured = self._calibration
        if measured is not None and measured.version != self._identity.version:
            measured = None
        return FleetMember(self._name, remote, self._identity, self._hangs, measured)

    def is_there(self) -> bool:
        with self._lock:
            self._notice_death()
            now = time.monotonic()
            if self._remote is None and self._attempt is None and not self._closed and now > self._looked:
                self._looked = now + _LOOK_SECONDS
                self._begin()
            return self._remote is not None and not self._refusal

    @property
    def identity(self) -> DeviceIdentity | None:
        """Return what the name was registered with; None as long as it has not been connected."""
        return self._identity

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def trouble(self) -> str:
        """Reason why it is not used at this moment; empty if it is. Starts to connect it, and does not wait for that.

        A device that did not answer when it was last asked is asked again, for a moment.
        """
        if self.is_there():
            remote = self._remote
            is_silent = remote is not None and remote.is_silent and not remote.responds
            return "it does not answer; it may have been stopped" if is_silent else ""
        with self._lock:
            return f"it is refused: {self._refusal}" if self._remote is not None else self._trouble

    @property
    def wait(self) -> DeviceWait:
        """Return how long runs wait for it at this moment."""
        return self._hangs.wait_of(self._name, self._remote)

    def take_over(self, earlier: Registration) -> None:
        """Keep to the identity that was registered under the same name before."""
        self._identity = earlier._identity

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._disconnect()

    def _notice_death(self) -> None:
        if self._remote is not None and self._remote.gone:
            _log.warning("a device is gone", device=self._name)
            self._is_asleep = self._remote.is_asleep
            self._trouble = "it does not answer; it may have been stopped" if self._is_asleep else "its process is gone"
            self._died, self._is_lost = time.monotonic(), True
            if not self._is_asleep:  # that has been noted
                self._note("lost", self._name, f"device {self._name} is gone")
            self._disconnect()

    def _disconnect(self) -> None:
        if self._remote is not None:
            self._remote.close()
        self._remote = None

    def _begin(self) -> _Attempt:
        """Start to connect. There is one attempt at a time; the lock is held."""
        attempt = _Attempt(time.monotonic(), Future())
        if BriefThread(partial(self._try, attempt), f"connect-{self._name}").started():
            self._attempt = attempt
        else:
            lack = HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the process cannot start another thread")
            attempt.outcome.set_exception(lack)
        return attempt

    def _await(self, attempt: _Attempt) -> tuple[RemoteDevice, str]:
        """The outcome of an attempt. Raises DEVICE_UNAVAILABLE if it takes too long."""
        patience = 0.0 if self._is_asleep else _IMPATIENCE_SECONDS if self._kept_waiting else self._patience
        try:
            return attempt.outcome.result(max(0.0, attempt.started + patience - time.monotonic()))
        except TimeoutError:
            if self._is_asleep:
                raise DeadObjectError(f"device {self._name!r} does not answer, and was given up") from None
            if not self._kept_waiting:
                _log.warning("a device does not answer", device=self._name)
            self._kept_waiting = True
            message = f"device {self._name!r} has not answered for {patience} s"
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, message) from None
        finally:
            del attempt  # it holds the error, whose frames hold what the caller loads

    def _try(self, attempt: _Attempt) -> None:
        """Make an attempt, and hand its outcome to those who wait."""
        try:
            remote, refusal = self._connect()
        except BaseException as error:
            with self._lock:
                self._attempt = None
                self._kept_waiting = time.monotonic() - attempt.started > self._patience
                if not self._is_asleep:
                    is_dead = isinstance(error, DeadObjectError)
                    self._trouble = self._nobody_serves() if is_dead else str(error)
            attempt.outcome.set_exception(error)
            del attempt  # as in _await
            return
        with self._lock:
            self._attempt, self._kept_waiting, self._is_asleep = None, False, False
            if self._closed:
                remote.close()
            else:
                self._remote, self._refusal = remote, refusal
                self._note_connected()
        attempt.outcome.set_result((remote, refusal))

    def _nobody_serves(self) -> str:
        trouble = self._endpoint.trouble
        return f"no process serves at its directory{': ' if trouble else ''}{trouble}"

    def _note_connected(self) -> None:
        """Note that the process answers; the lock is held."""
        if self._refusal:
            self._note("failed", self._name, f"device {self._name} is refused: {self._refusal}")
        elif self._is_lost:
            self._is_lost = False
            self._note("back", self._name, f"device {self._name} is back")

    def _connect(self) -> tuple[RemoteDevice, str]:
        """Open a session. It stays open if the device is refused, so that its end is noticed."""
        try:
            remote = RemoteDevice(self._endpoint, _CLIENT_NAME, self._patience, self._stall_seconds)
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
        measured = self._calibration
        if measured is not None and self._identity is not None and measured.version != self._identity.version:
            versions = f"it is {self._identity.version}, and {measured.version} was measured"
            _log.warning("a device is not modelled as it was calibrated", device=self._name, reason=versions)
        if refusal:
            _log.warning("a device is refused", device=self._name, reason=refusal)
        return remote, refusal

    def _register(self, remote: RemoteDevice) -> str:
        """Learn a device's identity, and have its description checked, which ``remote`` keeps.

        Returns the reason if it is to be refused, else an empty string.

        Raises DeadObjectError if it dies, TransportError if it does not answer at all.
        """
        try:
            identity = remote.identity(self._getter_seconds)
            known = self._identity or identity
            if identity != known:
                different = ", ".join(known.differences(identity))
                return (
                    f"it was registered as {known.version!r}; the process there now is {identity.version!r} and "
                    f"differs in {different}"
                )
            self._check_description(remote)
        except DeadObjectError as error:
            _log.warning("a device died while it was registered", device=self._name, reason=str(error))
            raise
        except NnhalError as error:
            if isinstance(error, TransportError) and not remote.responds:
                raise  # it has stopped, and may continue
            return str(error)
        self._identity = known
        return ""

    def _check_description(self, remote: RemoteDevice) -> None:
        """Raise GENERAL_FAILURE if a device's description violates the rules, and DeadObjectError if the device dies.

        One that does not say anything, or not in time, may have no backend service: it is asked again with a model.
        """
        try:
            remote.describe(self._patience)
        except DeadObjectError:
            raise
        except TransportError as error:
            if not isinstance(error, MissingMethodError):
                _log.info("a device does not describe itself", device=self._name, reason=str(error))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt to connect: when it started, and the session that it yields with the reason of a refusal."""

    started: float
    outcome: Future[tuple[RemoteDevice, str]]
