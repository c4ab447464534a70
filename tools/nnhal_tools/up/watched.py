"""One process of a testbed, which is watched, and what may be asked of it."""

from __future__ import annotations

import enum
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import general_failure
from nnhal.threads import BriefThread
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_hosting.restarted_process import DIED, STARTED, RestartedProcess, RestartState
from nnhal_hosting.supervision import Child, StartError
from nnhal_tools.up.journal import ProcessJournal

_ADDRESS = re.compile(r"[a-z]+: (?:https?://\S+|unix:\S+|\S+:\d+)")
"""How a process says what it serves at, when it begins to."""
_MOST_ADDRESSES = 8
_STATES = {
    RestartState.STARTING: wire.SupervisedProcess.STATE_STARTING,
    RestartState.RUNNING: wire.SupervisedProcess.STATE_RUNNING,
    RestartState.WAITING: wire.SupervisedProcess.STATE_WAITING,
}


class DrainState(enum.Enum):
    """State of a process: it takes new work, drains or is drained."""

    OPEN = wire.SupervisedProcess.STATE_RUNNING
    DRAINING = wire.SupervisedProcess.STATE_DRAINING
    DRAINED = wire.SupervisedProcess.STATE_DRAINED


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identity of a process, which does not change while it is started again and again."""

    name: str
    """Its name in the topology."""
    kind: str
    """device, framework or dashboard."""
    driver: str = ""
    directory: Path | None = None
    """Where its sockets are."""
    is_added: bool = False
    """Whether it is not of the topology."""


class WatchedProcess:
    """A process that is started again whenever it dies, unless it was stopped. Safe to use from several threads."""

    def __init__(
        self,
        identity: ProcessIdentity,
        launch: Callable[[Callable[[str], None]], Child],
        journal: ProcessJournal,
        heard: Callable[[str, str], None],
        ready_seconds: float,
    ) -> None:
        """``launch`` starts the process, and has what it is given called with each line that the process writes.

        ``heard`` is called with the name of the process and each line.
        """
        self.identity = identity
        self.drain = DrainState.OPEN
        """Whether it takes new work; who asks it to, sets this."""
        self.restarted: Callable[[], None] = lambda: None
        """What is done, in a thread of its own, when the process serves again after a death."""
        self._launch = launch
        self._journal = journal
        self._heard = heard
        self._ready_seconds = ready_seconds
        self._lock = threading.Lock()
        self._restarted: RestartedProcess | None = None
        self._closed = False
        self._command = ""
        self._restarts = 0
        self._last_end = ""
        self._addresses: list[str] = []

    @property
    def name(self) -> str:
        """Its name in the topology."""
        return self.identity.name

    @property
    def pid(self) -> int:
        """The process that runs, or ran last; 0 if it was stopped."""
        restarted = self._restarted
        return 0 if restarted is None else restarted.child.pid

    @property
    def is_running(self) -> bool:
        """True if it serves."""
        restarted = self._restarted
        return restarted is not None and restarted.state is RestartState.RUNNING

    @property
    def is_stopped(self) -> bool:
        """True if it stays ended until it is started."""
        return self._restarted is None

    @contextmanager
    def command(self, act: str) -> Iterator[None]:
        """Do something that takes a while. Raises GENERAL_FAILURE if something else is being done with the process."""
        with self._lock:
            if self._command:
                general_failure(f"{self.name} is being {self._command}; it can be {act} when that has ended")
            self._command = act
        try:
            yield
        finally:
            self._command = ""

    def launch(self) -> None:
        """Start the process and do not wait. Raises OSError, and StartError if the supervisor ends."""
        with self._lock:
            if self._closed:
                raise StartError(f"{self.name} is not started: the supervisor ends")
            self._restarted = RestartedProcess(self.name, self._start, self._note_restart)

    def await_ready(self) -> None:
        """Wait until the launched process serves. Raises StartError if it does not; then it is stopped."""
        restarted = self._restarted
        if restarted is None:
            raise StartError(f"{self.name} was stopped before it served")
        try:
            restarted.keep(self._ready_seconds)
        except StartError as error:
            self._end(restarted, str(error))
            raise
        driver = f", driver {self.identity.driver}" if self.identity.driver else ""
        self._journal.add(self.name, "started", f"process {restarted.child.pid} serves{driver}")

    def start(self) -> None:
        """Start the process, and wait until it serves. Raises OSError and StartError."""
        if not self.is_stopped:  # it waits for its next start
            self._leave("it was to start at once")
        self.launch()
        self.await_ready()

    def stop(self) -> None:
        """Stop the process until it is started."""
        pid = self.pid
        self._leave(f"process {pid} was stopped")
        self._journal.add(self.name, "stopped", f"process {pid} was stopped")

    def forget(self) -> None:
        """Stop the process, unless it is stopped already."""
        if not self.is_stopped:
            self.stop()

    def kill(self, number: int) -> int:
        """Send a signal to the process, and return the process. Raises GENERAL_FAILURE if it does not run."""
        restarted = self._restarted
        if restarted is None or restarted.state is RestartState.WAITING or restarted.child.process.poll() is not None:
            general_failure(f"{self.name} does not run, so it cannot get {signal_name(number)}")
        restarted.child.process.send_signal(number)
        pid = restarted.child.pid
        self._journal.add(self.name, "killed", f"process {pid} was sent {signal_name(number)} by an operator")
        return pid

    def leave(self) -> Child | None:
        """Watch it no longer and start it never again; return the process, if there is one, which the caller stops."""
        with self._lock:
            self._closed = True
            restarted = self._restarted
        return None if restarted is None else restarted.leave()

    def describe(self) -> wire.SupervisedProcess:
        """Describe the process and its state."""
        restarted, identity = self._restarted, self.identity
        state = wire.SupervisedProcess.STATE_STOPPED if restarted is None else _STATES[restarted.state]
        described = wire.SupervisedProcess(
            name=identity.name,
            kind=identity.kind,
            driver=identity.driver,
            state=self.drain.value if state == wire.SupervisedProcess.STATE_RUNNING else state,
            restarts=self._restarts,
            last_end=self._last_end,
            directory=str(identity.directory or ""),
            is_added=identity.is_added,
        )
        if restarted is not None:
            described.restarts += restarted.restarts
            described.last_end = restarted.last_end or self._last_end
            described.waits_for = restarted.waits_for
            described.command.extend(restarted.child.command)
            if restarted.state is not RestartState.WAITING:
                described.pid, described.started_ns = restarted.child.pid, restarted.started_ns
                described.addresses.extend(self._addresses)
        return described

    def _start(self) -> Child:
        self._addresses.clear()
        return self._launch(self._hear)

    def _hear(self, line: str) -> None:
        self._heard(self.name, line)
        address = line.rstrip()
        if len(self._addresses) < _MOST_ADDRESSES and _ADDRESS.fullmatch(address):
            self._addresses.append(address)

    def _note_restart(self, kind: str, text: str) -> None:
        self._journal.add(self.name, kind, text)
        restarted, directory = self._restarted, self.identity.directory
        # A process that takes injected faults may die of those: that is not held against a model.
        if kind == DIED and restarted and directory and "--allow-faults" not in restarted.child.command:
            Endpoint(directory).write_end(restarted.last_end)
        if kind == STARTED and not BriefThread(self.restarted, f"restarted-{self.name}").started():
            self.restarted()

    def _leave(self, how: str) -> None:
        restarted = self._restarted
        if restarted is not None:
            self._end(restarted, how)

    def _end(self, restarted: RestartedProcess, how: str) -> None:
        """Stop what a restarted keeps, and remember of it what is asked for later."""
        restarted.leave().stop()
        with self._lock:
            if self._restarted is restarted:
                self._restarted = None
                self._restarts += restarted.restarts
                self._last_end = how


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
