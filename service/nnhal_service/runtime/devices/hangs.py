"""Finds devices that hang while runs wait for them, and ends them, so that the runs fall back as after a death.

A device hangs if its process does not answer at all for some seconds. Only devices that runs wait for are asked, by
opening a link, which none of the threads that serve calls takes part in. A process that a debugger traces, or that is
busy with what may take long, is left alone: a preparation, a bind, or the first run of a binding.

The process is killed before its runs go elsewhere, so that it writes to their memory no more. One that an operator has
stopped, and one that this process may not kill, is given up instead: see ``RemoteDevice.give_up``.

A device whose process answers, but that does not end a run long after its deadline or after it was cancelled, is given
up, and killed if it does not end the run then. If the run has several devices, it is not known which one it waits for:
all are given up, and those that are not at work end the session by themselves.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, Protocol

from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from nnhal_hosting.logs import get_logger
from nnhal_hosting.supervision import is_stopped, is_traced
from nnhal_service.runtime.devices.notes import Note, no_note

HANG_SECONDS = 2.0
WAITED_SECONDS = 0.3
"""How long a run waits before its devices are asked."""
_LOOK_SECONDS = 0.2
_TICK_SECONDS = 0.1
_LONGEST_TICK_SECONDS = 0.15
"""The most that counts of a tick: if this process itself was late, the machine is busy or was asleep."""
_OVERDUE_LIMITS = 6
"""How many times as long as it may be silent a device may take to end a run that should have ended. By default these
are 12 seconds: the watchdog of a device of nnhal, which ends its process after 10, comes first.
"""
_END_SECONDS = 1.0
"""How long a killed process may take to end; one in a frozen control group does not."""
_log = get_logger(__name__)


class AwaitedDevice(NamedTuple):
    """A device that a run waits for, or may wait for without passing through here."""

    name: str
    remote: RemoteDevice
    may_be_busy: bool
    """Whether the run may keep the whole process busy for long, since it is the first."""
    overdue_seconds: float = 0.0
    """For how long the run on it should have ended, since its deadline has passed or it was cancelled."""
    waited_seconds: float = 0.0
    """For how long a run has waited for it, or for another device of its plan; 0 if a client may run on it directly."""


class DeviceWait(NamedTuple):
    """How long a device is waited for at this moment, in seconds; 0 if it is not."""

    waited: float = 0.0
    """By the run that has waited longest."""
    silent: float = 0.0
    """For an answer to whether its process is there at all, which such a device is asked."""


class Waiting(Protocol):
    """What runs on devices."""

    def awaited(self) -> Iterable[AwaitedDevice]:
        """The devices that it has been waiting for, for WAITED_SECONDS at least."""


class WaitingBind:
    """What is being bound to devices. Keep it for as long as that takes."""

    def __init__(self, devices: Iterable[AwaitedDevice]) -> None:
        self._devices, self._since = tuple(devices), time.monotonic()

    def awaited(self) -> Iterable[AwaitedDevice]:
        """All devices, once it takes long: which of them it waits for is not known."""
        waited = time.monotonic() - self._since
        return [each._replace(waited_seconds=waited) for each in self._devices] if waited > WAITED_SECONDS else ()


class HangWatch:
    """Looks after the devices of a fleet as long as something may run on them. Safe to use from several threads."""

    def __init__(self, seconds: float = HANG_SECONDS, note: Note = no_note) -> None:
        """A device hangs that has not answered for so many seconds. ``note`` is told of it."""
        self._seconds = seconds
        self._note = note
        self._lock = threading.Lock()
        self._all: weakref.WeakSet[Waiting] = weakref.WeakSet()
        self._asked: dict[RemoteDevice, float] = {}
        """Those that are being asked, and since when."""
        self._waited: dict[str, float] = {}
        """How long runs had waited for devices at the last look."""
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def add(self, waiting: Waiting) -> None:
        """Look after the devices of ``waiting`` for as long as it exists."""
        with self._lock:
            self._all.add(waiting)
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._watch, name="hang-watch", daemon=True)
                self._thread.start()

    def wait_of(self, name: str, remote: RemoteDevice | None) -> DeviceWait:
        """Return how long a device is waited for, by the last look."""
        asked = self._asked.get(remote, 0.0) if remote is not None else 0.0
        silent = time.monotonic() - asked if asked else 0.0
        return DeviceWait(self._waited.get(name, 0.0), silent if silent > WAITED_SECONDS else 0.0)

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._lock:
                if not self._all:
                    self._thread, self._waited = None, {}
                    return
                everything = list(self._all)
            try:
                self._look([device for waiting in everything for device in waiting.awaited()])
            except Exception:
                _log.exception("the watch of hanging devices has failed; it tries again")
            del everything  # what is closed meanwhile is to be collected

    def _look(self, devices: list[AwaitedDevice]) -> None:
        busy: dict[RemoteDevice, bool] = {}
        waited: dict[str, float] = {}
        for device in devices:
            if device.waited_seconds:
                waited[device.name] = max(waited.get(device.name, 0.0), device.waited_seconds)
            busy[device.remote] = busy.get(device.remote, True) and device.may_be_busy
        self._waited = waited
        for device in devices:
            remote = device.remote
            if device.overdue_seconds > _OVERDUE_LIMITS * self._seconds and not (remote.gone or is_traced(remote.pid)):
                remote.give_up()
                ending = partial(self._end_overdue, device.name, remote, device.overdue_seconds)
                threading.Thread(target=ending, name=f"end-{device.name}", daemon=True).start()
            if remote in self._asked or remote.gone:
                continue
            self._asked[remote] = time.monotonic()
            asking = threading.Thread(
                target=self._ask, args=(device.name, remote, busy[remote]), name=f"ask-{device.name}", daemon=True
            )
            asking.start()

    def _end_overdue(self, name: str, remote: RemoteDevice, overdue_seconds: float) -> None:
        """Kill a device that was given up, unless it ends what it was at work on, and with it the session."""
        what = f"device {name} may not have ended a run {overdue_seconds:.1f} s after it should have: it was given up"
        _log.warning("a device ignores that a run is over", device=name, what=what)
        self._note("hung", name, what)
        ends = time.monotonic() + self._seconds
        while remote.is_asleep and time.monotonic() < ends:
            self._over.wait(_TICK_SECONDS)
        if remote.is_asleep and killed(remote):
            what = f"device {name} has not ended its runs when it was given up: it hangs and was killed"
            _log.warning("a device hangs", device=name, what=what)
            self._note("hung", name, what)

    def _ask(self, name: str, remote: RemoteDevice, may_be_busy: bool) -> None:
        try:
            if answers(remote, self._seconds) or remote.gone:
                self._asked[remote] = 0.0
                self._over.wait(self._seconds / 2)  # before it is asked again
            else:
                has_stopped = is_stopped(remote.pid)
                reason = spared(remote, may_be_busy, has_stopped)
                if reason:
                    _log.info("a device does not answer, and is left alone", device=name, reason=reason)
                else:
                    self._end(name, remote, has_stopped)
        except OSError:
            return  # its link is closed
        finally:
            del self._asked[remote]

    def _end(self, name: str, remote: RemoteDevice, has_stopped: bool) -> None:
        said = f"device {name} has not answered for {self._seconds:g} s"
        if not has_stopped and killed(remote):
            what = f"{said}: it hangs and was killed"
        else:
            remote.give_up()
            reason = "it was stopped" if has_stopped else "it hangs, and cannot be killed from here"
            what = f"{said}: {reason}; models do without it until it answers"
        _log.warning("a device hangs", device=name, what=what)
        self._note("hung", name, what)


def answers(remote: RemoteDevice, seconds: float) -> bool:
    """Whether a device answers, or is gone, within so many seconds in which this process itself is on time."""
    done = threading.Event()

    def ask() -> None:
        try:
            Link(remote.endpoint.link, "nnhal-hang-watch", 4 * seconds).close()
        except DeadObjectError:
            if not remote.gone:
                return
        except NnhalError:  # a refusal is also an answer
            pass
        done.set()

    threading.Thread(target=ask, name="ask", daemon=True).start()
    waited = 0.0
    while waited < seconds:
        began = time.monotonic()
        if done.wait(_TICK_SECONDS):
            return True
        waited += min(time.monotonic() - began, _LONGEST_TICK_SECONDS)
    return False


def spared(remote: RemoteDevice, may_be_busy: bool, has_stopped: bool) -> str:
    """Why a device that does not answer is left alone; empty if it is not."""
    if is_traced(remote.pid):
        return "a debugger traces it"
    if has_stopped:
        return ""
    if remote.is_preparing:
        return "it prepares a model"
    return "it has the first run of a model, or is bound to memory" if may_be_busy else ""


def killed(remote: RemoteDevice) -> bool:
    """Kill the process of a device, and return whether it has ended; False if this process may not or cannot see it.

    No other process can be hit: the id is the device's as long as its link has not ended.
    """

    def has_ended() -> bool:
        return remote.gone and not remote.is_asleep  # one that was given up is gone, and asleep until its link ends

    try:
        process = os.pidfd_open(remote.pid)
    except (OSError, ValueError):
        return has_ended()
    try:
        if has_ended():
            return True
        signal.pidfd_send_signal(process, signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(_END_SECONDS * 1000))
    except OSError:
        return has_ended()
    finally:
        os.close(process)
