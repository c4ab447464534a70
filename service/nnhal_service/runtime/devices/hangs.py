"""Finds devices that hang while runs wait for them, and ends them, so that the runs fall back as after a death.

A device hangs if its process does not answer at all for some seconds, as far as it had a processor meanwhile: a busy
machine makes it slow (see ``ProcessorTime``). A framework that has no descriptor left to ask or to look with knows
nothing of it. Only devices that runs wait for are asked, by opening a link, which none of the threads that serve calls
takes part in. A process that a debugger traces, or that is busy with what may take long, is left alone: a preparation,
a bind, or the first run of a binding.

The process is killed before its runs go elsewhere, so that it writes to their memory no more. One that an operator has
stopped, and one that this process may not kill, is given up instead: see ``RemoteDevice.give_up``.

A run that takes far longer than any like it before is stopped, and goes elsewhere: see ``Waiting.stop_if_it_hangs``.

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
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from nnhal.threads import BriefThread, LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_hosting.processor_time import ProcessorTime
from nnhal_hosting.spare_descriptor import FOR_LOOKS, SpareDescriptor
from nnhal_hosting.supervision import is_stopped, is_traced
from nnhal_service.runtime.devices.notes import Note, no_note

HANG_SECONDS = 2.0
WAITED_SECONDS = 0.3
"""The time that a run waits before its devices are asked."""
_LOOK_SECONDS = 0.2
_TICK_SECONDS = 0.1
_LONGEST_TICK_SECONDS = 0.15
"""The most that counts of a tick: if this process itself was late, the machine was asleep."""
_LONGEST_LOOK_SECONDS = 1.0
"""The most that counts of the time between two looks."""
_OVERDUE_LIMITS = 6
"""How many times as long as it may be silent a device may take to end a run that should have ended. By default these
are 12 seconds: the watchdog of a device of nnhal, which ends its process after 10, comes first.
"""
_HANGING_LIMITS = 2.5
"""How many times as long as a device may be silent a run is never stopped for its slowness: by default 5 seconds."""
_END_SECONDS = 1.0
"""The time that a killed process may take to end; one in a frozen control group does not."""
_NO_SPARE = SpareDescriptor()
_log = get_logger(__name__)


class AwaitedDevice(NamedTuple):
    """A device that a run waits for, or may wait for without passing through here."""

    name: str
    remote: RemoteDevice
    may_be_busy: bool
    """True if the run may keep the whole process busy for long, since it is the first."""
    overdue_seconds: float = 0.0
    """For how long the run on it should have ended, since its deadline has passed or it was cancelled."""
    waited_seconds: float = 0.0
    """For how long a run has waited for it, or for another device of its plan; 0 if a client may run on it directly."""


class DeviceWait(NamedTuple):
    """Return how long a device is waited for at this moment, in seconds; 0 if it is not."""

    waited: float = 0.0
    """The time of the run that has waited longest."""
    silent: float = 0.0
    """The time since the device was asked whether it is alive, without an answer."""


class Waiting(Protocol):
    """Runs that wait for devices."""

    def awaited(self) -> Iterable[AwaitedDevice]:
        """The devices that it has been waiting for, for WAITED_SECONDS at least."""

    def stop_if_it_hangs(self, seconds: float) -> None:
        """Stop a run that has taken so long, and far longer than its slowest before; it then runs elsewhere."""


class WaitingBind:
    """Binding that waits for devices. Keep it for as long as that takes."""

    def __init__(self, devices: Iterable[AwaitedDevice]) -> None:
        self._devices, self._since = tuple(devices), time.monotonic()

    def awaited(self) -> Iterable[AwaitedDevice]:
        """All devices, once it takes long: which of them it waits for is not known."""
        waited = time.monotonic() - self._since
        return [each._replace(waited_seconds=waited) for each in self._devices] if waited > WAITED_SECONDS else ()

    def stop_if_it_hangs(self, seconds: float) -> None:
        """Do nothing: how long a bind takes depends on more than the devices."""


class HangWatch:
    """Looks after the devices of a fleet as long as something may run on them. Safe to use from several threads."""

    def __init__(self, seconds: float = HANG_SECONDS, note: Note = no_note) -> None:
        """A device hangs that has not answered for so many seconds. ``note`` is called for it."""
        self._seconds = seconds
        self._note = note
        self._lock = threading.Lock()
        self._all: weakref.WeakSet[Waiting] = weakref.WeakSet()
        self._asked: dict[RemoteDevice, float] = {}
        """Those that are being asked, and since when."""
        self._waited: dict[str, float] = {}
        """The time that runs had waited for devices at the last look."""
        self._overdue: dict[RemoteDevice, tuple[ProcessorTime, float]] = {}
        """For how long those had a processor that have not ended a run in time."""
        self._spares: dict[str, SpareDescriptor] = {}
        """For asking devices, by their names."""
        self._thread: LastingThread | None = None
        self._over = threading.Event()

    def be_ready_for(self, name: str) -> None:
        """Keep a descriptor in reserve to ask a device with."""
        self._spares.setdefault(name, SpareDescriptor()).keep()

    def add(self, waiting: Waiting) -> None:
        """Look after the devices of ``waiting`` for as long as it exists."""
        with self._lock:
            self._all.add(waiting)
            if self._thread is None and not self._over.is_set():
                self._thread = LastingThread(self._watch, "hang-watch").started()

    def wait_of(self, name: str, remote: RemoteDevice | None) -> DeviceWait:
        """Return how long a device is waited for, by the last look."""
        asked = self._asked.get(remote, 0.0) if remote is not None else 0.0
        silent = time.monotonic() - asked if asked else 0.0
        return DeviceWait(self._waited.get(name, 0.0), silent if silent > WAITED_SECONDS else 0.0)

    def close(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._lock:
                if not self._all:
                    self._thread, self._waited, self._overdue = None, {}, {}
                    return
                everything = list(self._all)
            self._stop_what_hangs(everything)
            self._look([device for waiting in everything for device in waiting.awaited()])
            del everything  # what is closed meanwhile is to be collected

    def _stop_what_hangs(self, everything: Iterable[Waiting]) -> None:
        for waiting in everything:
            waiting.stop_if_it_hangs(_HANGING_LIMITS * self._seconds)

    def _look(self, devices: list[AwaitedDevice]) -> None:
        busy: dict[RemoteDevice, bool] = {}
        waited: dict[str, float] = {}
        for device in devices:
            if device.waited_seconds:
                waited[device.name] = max(waited.get(device.name, 0.0), device.waited_seconds)
            busy[device.remote] = busy.get(device.remote, True) and device.may_be_busy
        self._waited = waited
        self._count_overdue(device.remote for device in devices if device.overdue_seconds)
        for device in devices:
            remote = device.remote
            if self._is_overdue(device):
                remote.give_up()
                BriefThread(partial(self._end_overdue, device), f"end-{device.name}").started()
            if remote in self._asked or remote.gone:
                continue
            self._asked[remote] = time.monotonic()
            if not BriefThread(partial(self._ask, device.name, remote, busy[remote]), f"ask-{device.name}").started():
                del self._asked[remote]

    def _count_overdue(self, late: Iterable[RemoteDevice]) -> None:
        before, self._overdue = self._overdue, {}
        for remote in set(late):
            if not remote.gone:
                its_time, counted = before.get(remote) or (ProcessorTime(remote.pid, os.getpid()), 0.0)
                self._overdue[remote] = its_time, counted + its_time.passed(_LONGEST_LOOK_SECONDS)

    def _is_overdue(self, device: AwaitedDevice) -> bool:
        remote = device.remote
        _, counted = self._overdue.get(remote, (None, 0.0))
        limit = _OVERDUE_LIMITS * self._seconds
        try:
            return min(counted, device.overdue_seconds) > limit and not (remote.gone or is_traced(remote.pid))
        except OSError:  # this process has no descriptor left to look with
            return False

    def _end_overdue(self, device: AwaitedDevice) -> None:
        """Kill a device that was given up, unless it ends what it was at work on, and with it the session."""
        name, remote, late = device.name, device.remote, device.overdue_seconds
        what = f"device {name} may not have ended a run {late:.1f} s after it should have: it was given up"
        _log.warning("a device ignores that a run is over", device=name, what=what)
        self._note("hung", name, what)
        left, its_time = self._seconds, ProcessorTime(remote.pid, os.getpid())
        while remote.is_asleep and left > 0 and not self._over.wait(_TICK_SECONDS):
            left -= its_time.passed(_LONGEST_TICK_SECONDS)
        if remote.is_asleep and killed(remote):
            what = f"device {name} has not ended its runs when it was given up: it hangs and was killed"
            _log.warning("a device hangs", device=name, what=what)
            self._note("hung", name, what)

    def _ask(self, name: str, remote: RemoteDevice, may_be_busy: bool) -> None:
        try:
            if answers(remote, self._seconds, self._spares.get(name, _NO_SPARE)) or remote.gone:
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
            return  # its link is closed, or this process has no descriptor left to look with
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


def answers(remote: RemoteDevice, seconds: float, spare: SpareDescriptor) -> bool:
    """Return whether a device answers, is gone, or cannot be asked, within so many seconds that its process had."""
    done, over = threading.Event(), threading.Event()

    def ask() -> None:
        patience = seconds
        while not over.is_set():
            patience *= 4  # on a busy machine a link may take long, and each that is given up takes time of the next
            try:
                spare.used_for(partial(_open_link, remote, patience))
            except DeadObjectError:
                if not remote.gone:
                    over.wait(_TICK_SECONDS)
                    continue
            except (NnhalError, OSError):  # a refusal is also an answer, and who has no descriptor left knows nothing
                pass
            done.set()
            return

    if not BriefThread(ask, "ask").started():
        return True
    try:
        if done.wait(_TICK_SECONDS):
            return True
        counted, its_time = 0.0, ProcessorTime(remote.pid, os.getpid())
        while counted < seconds:
            if done.wait(_TICK_SECONDS):
                return True
            counted += its_time.passed(_LONGEST_TICK_SECONDS)
        return False
    finally:
        over.set()


def _open_link(remote: RemoteDevice, seconds: float) -> None:
    Link(remote.endpoint.link, "nnhal-hang-watch", seconds).close()


def spared(remote: RemoteDevice, may_be_busy: bool, has_stopped: bool) -> str:
    """Return why a device that does not answer is left alone; empty if it is not."""
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
        return FOR_LOOKS.used_for(partial(_killed, remote, has_ended))
    except (OSError, ValueError):
        return has_ended()


def _killed(remote: RemoteDevice, has_ended: Callable[[], bool]) -> bool:
    process = os.pidfd_open(remote.pid)
    try:
        if has_ended():
            return True
        signal.pidfd_send_signal(process, signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(_END_SECONDS * 1000))
    finally:
        os.close(process)
