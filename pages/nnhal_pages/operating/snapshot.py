"""Answers of all processes about themselves at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag, IntEnum, auto
from pathlib import Path
from urllib.parse import quote

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.near_names import there_are
from nnhal.remote import DeviceDescription, DeviceIdentity
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2


class OperatorError(NnhalError):
    """Error of a request that cannot be met; ``hint`` says what can."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownProcessError(LookupError, OperatorError):
    """No process has the name that was given."""

    hint = ""


class Detail(Flag):
    """Details that processes are asked for only while somebody looks at them, since they cost time."""

    CLIENTS = auto()
    """Some of the runs that have ended of late, by which it is known who asks for what."""
    RUNS = auto()
    """Every run that waits, runs or has ended."""
    PROCESSES = auto()
    """What processes use, execute and log, and whether they drain."""
    SESSIONS = auto()
    """What each session owns, with all that."""
    DEVICES = auto()
    """What devices are and can do, which does not change while they run."""


NO_DETAIL = Detail(0)


class Severity(IntEnum):
    """Severity of a problem; the worst are shown first."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that an operator should know, and where to look."""

    severity: Severity
    text: str
    page: str
    """The path of the page that shows it."""
    consequences: tuple[Complaint, ...] = ()
    """What is wrong since this is."""


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """A device or the framework. What it has not said yet, or is too old for, is None."""

    name: str
    kind: str
    """``device``, ``framework`` or ``dashboard``."""
    directory: str = ""
    """Where its sockets are; empty if it has none."""
    supervised: supervisor_pb2.SupervisedProcess | None = None
    """What the supervisor says; None if nnhal does not supervise it."""
    silence: str = ""
    """Why it says nothing at this moment; empty if it answers."""
    lack: str = ""
    """Why it says less than other processes although it answers; empty if it does not."""
    process: admin_pb2.GetProcessResponse | None = None
    """Its last answer. It is asked only while somebody looks."""
    device: admin_pb2.GetDeviceResponse | None = None
    """The last answer of a device."""
    limits: Sequence[admin_pb2.OperationLimit] = ()
    """What a device takes of each operation."""
    identity: DeviceIdentity | None = None
    """What the HAL says of a device: version, type, capabilities, extensions."""
    description: DeviceDescription | None = None
    """What a device says of its backend: memory rules, costs, workers."""

    @property
    def endpoint(self) -> Endpoint:
        """Return where its sockets are."""
        return Endpoint(Path(self.directory), self.kind)

    @property
    def page(self) -> str:
        """The path of its page."""
        return f"/{'devices' if self.kind == 'device' else 'processes'}/{quote(self.name, safe='')}"

    @property
    def answers(self) -> bool:
        """Return whether it answers at this moment."""
        return not self.silence

    @property
    def state(self) -> str:
        """One word: up, starting, draining, drained, restarting, stopped, silent or down."""
        supervised = self.supervised
        states = supervisor_pb2.SupervisedProcess.State
        if supervised is not None and supervised.state != states.STATE_RUNNING:
            words = {
                states.STATE_STARTING: "starting",
                states.STATE_DRAINING: "draining",
                states.STATE_DRAINED: "drained",
                states.STATE_WAITING: "restarting",
                states.STATE_STOPPED: "stopped",
            }
            is_away = supervised.runs_already and supervised.state == states.STATE_WAITING
            return "down" if is_away else words.get(supervised.state, "down")
        if self.process is not None and self.process.draining and self.answers:
            return "draining"
        if self.answers:
            return "up"
        return "silent" if supervised is not None else "down"

    @property
    def is_dead(self) -> bool:
        """Return whether it does no work, and nobody has asked it to finish what it has."""
        return self.state in ("down", "silent", "restarting", "stopped")

    @property
    def last_said(self) -> admin_pb2.GetProcessResponse | None:
        """Its last answer, unless what it said of its sessions is over: it has died since, or was stopped."""
        return self.process if self.answers or self.state == "silent" else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment."""

    number: int = 0
    """Counts the snapshots, from 1 on."""
    at: float = 0.0
    """Seconds since the epoch."""
    at_ns: int = 0
    """The same instant by CLOCK_BOOTTIME."""
    supervisor: supervisor_pb2.ListProcessesResponse | None = None
    """None if nnhal supervises nothing here."""
    processes: tuple[ObservedProcess, ...] = ()
    """Devices in the order of preference, then the framework, then others."""
    framework: framework_admin_pb2.GetFrameworkResponse | None = None
    """The framework's last answer."""
    live: tuple[admin_pb2.ExecutionState, ...] = ()
    """The runs and requests that wait and run."""
    finished: tuple[framework_admin_pb2.FinishedRun, ...] = ()
    """The last ones that ended, the newest last."""
    recordings: tuple[framework_admin_pb2.RecordingState, ...] = ()
    """The recordings that the framework keeps, the oldest first."""
    events: tuple[supervisor_pb2.ProcessEvent, ...] = ()
    """What has happened, of all sources, the newest last."""
    problems: tuple[Complaint, ...] = field(default=())
    """What is wrong, the worst first."""

    @property
    def devices(self) -> tuple[ObservedProcess, ...]:
        return tuple(self.of_kind("device"))

    @property
    def host(self) -> ObservedProcess | None:
        """The framework's process."""
        return next(self.of_kind("framework"), None)

    def of_kind(self, kind: str) -> Iterator[ObservedProcess]:
        """Yield the processes of a kind."""
        return (process for process in self.processes if process.kind == kind)

    def standing(self, device: str) -> framework_admin_pb2.DeviceStanding | None:
        """Return what the framework says of a device; None if it does not know it, or has said nothing."""
        known = self.framework.devices if self.framework is not None else ()
        return next((standing for standing in known if standing.name == device), None)

    def page_of(self, name: str) -> str:
        """Return the path of the page of a process or a served model; empty if there is none of that name."""
        process = self.find(name)
        if process is not None:
            return process.page
        served = self.framework.models if self.framework is not None else ()
        return f"/models/{quote(name, safe='')}" if any(model.name == name for model in served) else ""

    def epoch_ns(self, instant_ns: int) -> float:
        """Return an instant of CLOCK_BOOTTIME in nanoseconds since the epoch."""
        return self.at * 1e9 - (self.at_ns - instant_ns)

    def find(self, name: str) -> ObservedProcess | None:
        return next((process for process in self.processes if process.name == name), None)

    def known(self, name: str) -> ObservedProcess:
        """Return a process. Raises UnknownProcessError, with the names that there are."""
        process = self.find(name)
        if process is None:
            raise UnknownProcessError(
                f"no process is called {name!r}; {there_are(name, [p.name for p in self.processes])}"
            )
        return process
