"""A device of a testbed that runs already: it is used and watched, and neither started nor ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError, general_failure
from nnhal.remote import RemoteDevice
from nnhal.threads import LastingThread
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_hosting.process_start import process_started_ns
from nnhal_hosting.supervision import Child
from nnhal_tools.up.journal import ProcessJournal
from nnhal_tools.up.watched import DrainState, ProcessIdentity, signal_name

_CLIENT_NAME = "nnhal-supervisor"
_PATIENCE_SECONDS = 2.0
"""How long the device may be silent when it is asked."""
_LOOK_SECONDS = 0.25
"""How often a device is looked for that is not there, and whether one that is there has gone."""
_FIRST_SECONDS = 5.0
"""How long a start waits to know whether the device is there."""


class RunningDevice:
    """A device that something else starts, seen by a session with it. Safe to use from several threads.

    It has the methods of ``WatchedProcess``; those that would start or stop it raise GENERAL_FAILURE.
    """

    def __init__(self, identity: ProcessIdentity, journal: ProcessJournal) -> None:
        assert identity.directory is not None
        self.identity = identity
        self.drain = DrainState.OPEN
        """Whether models are planned with it; who asks for that, sets this."""
        self.restarted: Callable[[], None] = lambda: None
        self._endpoint = Endpoint(identity.directory)
        self._journal = journal
        self._device: RemoteDevice | None = None
        self._trouble = "it has not been asked yet"
        self._last_end = ""
        self._returns = 0
        self._leaving = threading.Event()
        self._looked = threading.Event()
        self._watcher = LastingThread(self._watch, f"watch-{identity.name}")

    @property
    def name(self) -> str:
        """Its name in the topology."""
        return self.identity.name

    @property
    def pid(self) -> int:
        """The process that serves; 0 if none does, or it is in another PID namespace."""
        device = self._device
        return 0 if device is None else device.pid

    @property
    def is_running(self) -> bool:
        """True if it serves."""
        return self._device is not None

    @property
    def is_stopped(self) -> bool:
        """True if it was stopped, which is nobody's here to do."""
        return False

    @contextmanager
    def command(self, act: str) -> Iterator[None]:
        """Do something with it. What may be done at all takes no while."""
        yield

    def launch(self) -> None:
        """Begin to watch it."""
        self._watcher.start()

    def await_ready(self) -> None:
        """Wait until it is known whether it serves. If it does not, the testbed goes on without it until it does."""
        self._looked.wait(_FIRST_SECONDS)

    def start(self) -> None:
        """Begin to watch it. Raises GENERAL_FAILURE if it does not serve, since nothing here can start it."""
        if self._watcher.ident is None:
            self.launch()
            self.await_ready()
        if not self.is_running:
            self._refuse("started", f"; now: {self._trouble}")

    def stop(self) -> None:
        """Raise GENERAL_FAILURE."""
        self._refuse("stopped", f"; 'nnhal ctl drain {self.name}' has models planned without it")

    def forget(self) -> None:
        """Use it no more. It goes on."""
        self.leave()

    def kill(self, number: int) -> int:
        """Send a signal to its process, and return the process. Raises GENERAL_FAILURE if that cannot be done."""
        device = self._device
        if device is None:
            general_failure(f"{self.name} does not run, so it cannot get {signal_name(number)}")
        pid = device.pid
        try:
            process = os.pidfd_open(pid)
        except (OSError, ValueError):
            general_failure(f"{self.name} is a process that cannot be seen from here, so it cannot get a signal")
        try:
            if device.gone:  # the id may be another process's
                general_failure(f"{self.name} has just ended, so it cannot get {signal_name(number)}")
            signal.pidfd_send_signal(process, number)
        except PermissionError:
            general_failure(f"{self.name} is another user's process {pid}, so it cannot get {signal_name(number)}")
        finally:
            os.close(process)
        self._journal.add(self.name, "killed", f"process {pid} was sent {signal_name(number)} by an operator")
        return pid

    def leave(self) -> Child | None:
        """Watch it no longer. It is no process of the caller's to stop."""
        self._leaving.set()
        return None

    def describe(self) -> wire.SupervisedProcess:
        """Say what it is, and how it fares."""
        device, identity = self._device, self.identity
        described = wire.SupervisedProcess(
            name=identity.name,
            kind=identity.kind,
            driver=identity.driver,
            state=wire.SupervisedProcess.STATE_WAITING if device is None else self.drain.value,
            restarts=self._returns,
            last_end=self._last_end,
            directory=str(identity.directory),
            is_added=identity.is_added,
            runs_already=True,
        )
        if device is None:
            described.waits_for = f"what starts it: {self._trouble}"
        else:
            described.pid = device.pid
            described.started_ns = process_started_ns(device.pid) or 0
        return described

    def _refuse(self, act: str, more: str) -> None:
        general_failure(
            f"{self.name} serves at {self._endpoint.directory} and is not this supervisor's: it cannot be {act} here"
            f"{more}"
        )

    def _watch(self) -> None:
        while not self._leaving.is_set():
            opened = self._opened()
            if opened is None:
                self._looked.set()
                self._leaving.wait(_LOOK_SECONDS)
                continue
            with opened as device:
                self._device = device
                where = f"process {device.pid}" if device.pid else "a process"
                self._journal.add(self.name, "started", f"{where} serves, which something else has started")
                self._looked.set()
                while not device.gone and not self._leaving.wait(_LOOK_SECONDS):
                    pass
                self._device = None
            if not self._leaving.is_set():
                self._last_end = f"{where} ended its sessions"
                self._returns += 1
                self._trouble = self._last_end
                self._journal.add(self.name, "died", f"{self._last_end}; models do without it until it serves again")

    def _opened(self) -> RemoteDevice | None:
        """A session with the device, if it answers. Else what the trouble is, is remembered, and told once."""
        try:
            device = RemoteDevice(self._endpoint, _CLIENT_NAME, _PATIENCE_SECONDS)
            try:
                device.version(_PATIENCE_SECONDS)
            except BaseException:
                device.close()
                raise
        except NnhalError as error:
            trouble = str(error)
            if trouble != self._trouble and not self._leaving.is_set():
                self._trouble = trouble
                if not self._last_end:
                    self._journal.say(self.name, f"is not there: {trouble}; everything goes on without it until it is")
            return None
        return device
