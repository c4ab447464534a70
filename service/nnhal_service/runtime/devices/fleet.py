"""The fleet: the devices that the framework knows, by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from nnhal.calibration import DeviceCalibration
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.near_names import there_are
from nnhal.types import ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.devices.fatal_models import FatalModels
from nnhal_service.runtime.devices.hangs import HANG_SECONDS, DeviceWait, HangWatch
from nnhal_service.runtime.devices.notes import Note, no_note
from nnhal_service.runtime.devices.registration import RETURN_SECONDS, FleetMember, Registration

__all__ = ["DeviceState", "Fleet", "FleetMember"]

_GETTER_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_RETURN_PAUSE_SECONDS = 0.05
_never = threading.Event()
_log = get_logger(__name__)


class DeviceState(NamedTuple):
    """The state of a device at one moment."""

    name: str
    endpoint: Endpoint
    trouble: str
    """Why it does not answer, or is refused; empty if neither."""
    is_withdrawn: bool
    """True if models are planned without it."""
    is_added: bool
    """True if it was added after the start."""
    wait: DeviceWait = DeviceWait()
    """The time that runs wait for it."""


class Fleet:
    """Devices by name, in order of preference. A device is connected when it is first needed, and when it comes back.

    A device is registered when it is connected: the process says what it is, and one that fails to, takes too long, or
    breaks the rules is refused as long as it runs. The first identity under a name holds for the life of the fleet: a
    process with another identity is refused, since plans were made for the first one, until the registered device or
    the framework is started again. Other devices are not affected.

    A process that does not answer, for example because it was stopped, costs a caller ``patience``, and later callers
    less: it is connected in a thread of its own, which continues when the process does.

    A device may be withdrawn: plans that are made from then on do without it. Those with steps on it may keep them.

    Safe to use from several threads.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        getter_seconds: float = _GETTER_SECONDS,
        patience: float = _PATIENCE_SECONDS,
        note: Note = no_note,
        hang_seconds: float = HANG_SECONDS,
        stall_seconds: float = 0.0,
        calibration: Mapping[str, DeviceCalibration] = MappingProxyType({}),
        fatal_models: FatalModels | None = None,
    ) -> None:
        """``getter_seconds`` is how long a device may take to answer each question about itself, ``patience`` how long
        it may be silent, ``hang_seconds`` how long while a run waits for it, and ``stall_seconds`` how long it may
        make no progress with another question, 0 for ever. ``note`` is told what becomes of
        devices. ``calibration`` is what was measured of devices, by name. ``fatal_models`` are those that drivers have
        died of, none by default.
        """
        self.fatal_models = fatal_models or FatalModels(note=note)
        self._hangs = HangWatch(hang_seconds, note)
        self._register = partial(
            Registration,
            getter_seconds=getter_seconds,
            patience=patience,
            stall_seconds=stall_seconds,
            note=note,
            hangs=self._hangs,
            calibration=calibration,
        )
        self._changing = threading.Lock()
        # These are replaced and not changed, so that they may be read at any time.
        self._entries = {name: self._register(name, endpoint) for name, endpoint in endpoints.items()}
        self._added: frozenset[str] = frozenset()
        self._withdrawn: frozenset[str] = frozenset()
        self._removed: dict[str, Registration] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all devices, whether they answer or not."""
        return tuple(self._entries)

    def get(self, name: str) -> FleetMember:
        """The device of that name.

        Raises DeadObjectError if it is not there, DEVICE_UNAVAILABLE if it is refused, does not answer or was removed,
        and LookupError for an unknown name.
        """
        entry = self._entries.get(name)
        if entry is None:
            if name in self._removed:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"device {name!r} was removed")
            raise self._unknown(name)
        return entry.member()

    def awaited(self, name: str, dead: FleetMember | None = None) -> FleetMember:
        """The device of that name; one that has died recently is awaited, since it may be restarted. Raises as ``get``.

        ``dead`` has failed in a call as a dead process does, perhaps before the end of its session was noticed.
        """
        until = time.monotonic() + RETURN_SECONDS
        while True:
            try:
                member = self.get(name)
                if dead is None or member.remote is not dead.remote or time.monotonic() > until:
                    return member
            except DeadObjectError:
                entry = self._entries.get(name)
                if entry is None or not entry.may_return:
                    raise
            _never.wait(_RETURN_PAUSE_SECONDS)

    def is_there(self, name: str) -> bool:
        """True if a device is connected and not withdrawn. Does not wait, but starts to connect one that is not."""
        entry = self._entries.get(name)
        return entry is not None and entry.is_there() and name not in self._withdrawn

    def available(self, names: Sequence[str] = (), answering: bool = True) -> list[FleetMember]:
        """The named devices, or all if none are named, in the order given: those that answer at this moment, or all
        that are connected.

        Devices that are withdrawn are left out.
        """
        members = []
        for name in names or self.names:
            if name in self._withdrawn:
                continue
            with suppress(NnhalError):
                member = self.get(name)
                if not answering or member.remote.responds:
                    members.append(member)
                elif not member.remote.gone:
                    _log.warning("a device does not answer; it is left out", device=name)
        return members

    def states(self) -> list[DeviceState]:
        """Return the states of all devices.

        Waits only for those that were silent when last asked, and only for a moment.
        """
        return [
            DeviceState(name, entry.endpoint, entry.trouble, name in self._withdrawn, name in self._added, entry.wait)
            for name, entry in self._entries.items()
        ]

    @property
    def withdrawn(self) -> frozenset[str]:
        """The devices that new plans do without: those that were withdrawn, and those that were removed."""
        return self._withdrawn | self._removed.keys()

    def withdraw(self, name: str) -> None:
        """Have new plans do without a device. Raises LookupError for an unknown name."""
        with self._changing:
            if name not in self._entries:
                raise self._unknown(name)
            self._withdrawn |= {name}

    def restore(self, name: str) -> None:
        """Have plans use a device again that was withdrawn, and forget which models it has died of.

        Raises LookupError for an unknown name.
        """
        with self._changing:
            if name not in self._entries:
                raise self._unknown(name)
            self._withdrawn -= {name}
            identity = self._entries[name].identity
        if identity is not None:
            self.fatal_models.forget(identity.version)

    def add(self, name: str, endpoint: Endpoint) -> None:
        """Know one more device, the last in order of preference; the identity that a name had before still holds.

        Raises ValueError if the name is taken, and as ``get`` does if the device cannot be used: it is unknown then.
        """
        with self._changing:
            if name in self._entries:
                raise ValueError(f"there is a device {name!r} already")
            entry = self._register(name, endpoint)
            if name in self._removed:
                entry.take_over(self._removed[name])
            try:
                entry.member()
            except BaseException:
                entry.close()
                raise
            self._entries = {**self._entries, name: entry}
            self._added |= {name}
            self._removed = {other: gone for other, gone in self._removed.items() if other != name}

    def require_removable(self, name: str) -> None:
        """Raise as ``remove`` would."""
        if name not in self._entries:
            raise self._unknown(name)
        if name not in self._added:
            raise ValueError(f"device {name!r} was there at the start, expected one that was added")

    def remove(self, name: str) -> None:
        """Forget a device that was added, and end the session with it.

        Raises LookupError for an unknown name, and ValueError if the fleet has known the device from its start.
        """
        with self._changing:
            self.require_removable(name)
            entry = self._entries[name]
            self._entries = {other: kept for other, kept in self._entries.items() if other != name}
            self._removed = {**self._removed, name: entry}
            self._added -= {name}
            self._withdrawn -= {name}
        entry.close()

    def _unknown(self, name: str) -> LookupError:
        return LookupError(f"no device {name!r}; {there_are(name, self._entries)}")

    def close(self) -> None:
        self._hangs.close()
        for entry in self._entries.values():
            entry.close()
