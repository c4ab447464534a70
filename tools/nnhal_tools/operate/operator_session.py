"""An operator's way to the processes below a directory: by their supervisor, or one by one if there is none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nnhal.admin import SUPERVISOR
from nnhal.contexts import Closing
from nnhal.endpoint import endpoints_below
from nnhal.errors import MissingMethodError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import CLIENT_NAME, DeviceAdmin, FrameworkAdmin, ProcessAdmin
from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_hosting.admin_keys import read_admin_key
from nnhal_pages.operating.resources import foreign_supervisor
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess, Snapshot

_PATIENCE_SECONDS = 5.0
_AT_A_TIME = 8
_KINDS = ("device", "framework")
_NOBODY = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)
"""What connecting fails with if no supervisor is there."""
_TOOLS = {
    admin_pb2.SUPERVISOR_UNSPECIFIED: "the program that started it",
    admin_pb2.SUPERVISOR_NNHAL: "that supervisor",
    admin_pb2.SUPERVISOR_SYSTEMD: "systemctl",
    admin_pb2.SUPERVISOR_CONTAINER: "that engine, such as docker or podman",
}
"""What operators steer processes of other supervisors with."""


class OperatorError(NnhalError):
    """Error of a request that cannot be met; ``hint`` says what can."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class OperatorSession(Closing):
    """The processes below a directory. Use as a context. Every method raises NnhalError if one does not answer."""

    def __init__(self, directory: Path, key_file: Path | None = None) -> None:
        """Reach the supervisor, if there is one. ``key_file`` holds the admin key of processes without one.

        Raises OSError or ValueError if the file is not as expected, and NnhalError if the supervisor does not answer.
        """
        self.directory = directory
        self._key = read_admin_key(key_file) if key_file is not None else ""
        self._supervisor: SupervisorControl | None = None
        try:
            self._supervisor = SupervisorControl(directory, patience=_PATIENCE_SECONDS)
            self._key = self._supervisor.admin_key()
        except NnhalError as error:
            self._forget_supervisor()
            if key_file is None and not isinstance(error.__cause__, _NOBODY):
                raise OperatorError(
                    f"the supervisor of {directory} cannot be asked: {error}",
                    "it may be another user's, in another container, or stopped; '--admin-key FILE' does without it",
                ) from error

    @property
    def is_supervised(self) -> bool:
        """True if a supervisor of nnhal answers."""
        return self._supervisor is not None

    @property
    def supervisor(self) -> SupervisorControl:
        """The supervisor. Raises OperatorError if there is none."""
        if self._supervisor is None:
            self.processes()  # raises an error that says more if there are none
            raise OperatorError(
                f"no supervisor of nnhal serves at {self.directory / SUPERVISOR}",
                "what started the processes watches over them; '--admin-key FILE' lets them be drained and restarted",
            )
        return self._supervisor

    def processes(self) -> list[ObservedProcess]:
        """The devices and the framework that there are, whether they answer or not. Raises OperatorError if none is."""
        if self._supervisor is not None:
            return [
                ObservedProcess(process.name, process.kind, process.directory, process)
                for process in self._supervisor.processes().processes
                if process.kind in _KINDS
            ]
        found = [
            ObservedProcess(endpoint.directory.name, endpoint.service, str(endpoint.directory))
            for endpoint in endpoints_below(self.directory)
        ]
        if not found:
            raise OperatorError(
                f"no process of nnhal serves below {self.directory}",
                "'nnhal up' starts devices and a framework; --directory or NNHAL_DIRECTORY says where they are",
            )
        return found

    def find(self, name: str) -> ObservedProcess:
        """The device or framework of a name. Raises OperatorError for another name."""
        processes = self.processes()
        for process in processes:
            if process.name == name:
                return process
        raise OperatorError(
            f"no device or framework is called {name!r}",
            f"there are {', '.join(process.name for process in processes)}",
        )

    def admin(self, process: ObservedProcess) -> ProcessAdmin:
        """Open a session with a process, which the caller closes."""
        return ProcessAdmin(process.endpoint, self._key, patience=_PATIENCE_SECONDS)

    def device(self, process: ObservedProcess) -> DeviceAdmin:
        """Open a session with a device, which the caller closes."""
        return DeviceAdmin(process.endpoint, self._key, patience=_PATIENCE_SECONDS)

    def framework(self) -> FrameworkAdmin:
        """Open a session with the framework, which the caller closes. Raises OperatorError if there is none."""
        for process in self.processes():
            if process.kind == "framework":
                return FrameworkAdmin(process.endpoint, self._key, patience=_PATIENCE_SECONDS)
        raise OperatorError(f"no framework serves below {self.directory}", "'nnhal serve' starts one")

    def snapshot(self, wanted: Detail = NO_DETAIL) -> Snapshot:
        """Ask the supervisor and all processes once, at the same time; what does not answer has a ``silence``.

        The framework tells of devices and models, unless it is asked for its sessions. Raises as ``processes`` does.
        """
        reachable = self.processes()
        supervisor = self._supervisor.processes() if self._supervisor is not None else None
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="census") as pool:
            processes = list(pool.map(partial(self.observe, wanted=wanted), reachable))
        known = {process.name for process in processes}
        others = supervisor.processes if supervisor is not None else ()
        processes += [ObservedProcess(p.name, p.kind, supervised=p) for p in others if p.name not in known]
        events = self._supervisor.events() if self._supervisor is not None else []
        framework, runs = None, framework_admin_pb2.GetRunsResponse()
        if Detail.SESSIONS not in wanted:
            with suppress(NnhalError), self.framework() as admin:
                framework = admin.framework()
                runs = admin.runs() if Detail.RUNS in wanted else runs
                events += framework.events
        return Snapshot(
            supervisor=supervisor,
            processes=tuple(processes),
            framework=framework,
            live=tuple(runs.live),
            finished=tuple(runs.finished),
            recordings=tuple(runs.recordings),
            events=tuple(sorted(events, key=lambda event: event.at_ns)),
        )

    def observe(self, seen: ObservedProcess, wanted: Detail) -> ObservedProcess:
        """Ask one process for some details. It may not answer, or have no service that tells them."""
        if seen.supervised is not None and not seen.supervised.pid:
            return replace(seen, silence="it does not run")
        if not wanted & (Detail.SESSIONS | Detail.PROCESSES | Detail.DEVICES):
            return seen
        try:
            if Detail.DEVICES in wanted and seen.kind == "device":
                with RemoteDevice(seen.endpoint, CLIENT_NAME, _PATIENCE_SECONDS) as remote:
                    seen = replace(seen, identity=remote.identity(_PATIENCE_SECONDS))
                    with suppress(MissingMethodError):  # a device without a backend says no more than the HAL
                        seen = replace(seen, description=remote.describe())
            with self.device(seen) if seen.kind == "device" else self.admin(seen) as admin:
                if wanted & (Detail.SESSIONS | Detail.PROCESSES):
                    seen = replace(seen, process=admin.process(brief=Detail.SESSIONS not in wanted))
                if isinstance(admin, DeviceAdmin) and wanted & (Detail.DEVICES | Detail.PROCESSES):
                    seen = replace(seen, device=admin.device(with_limits=Detail.DEVICES in wanted))
        except MissingMethodError as error:
            return replace(seen, lack=f"no admin service: {error}")
        except NnhalError as error:
            return replace(seen, silence=str(error))
        return seen

    def restart_foreign(self, name: str) -> str:
        """Have a process end that another supervisor starts again, and return what that is. Raises OperatorError."""
        with self.admin(self.find(name)) as admin:
            process = admin.process()
            who = foreign_supervisor(process)
            if process.supervisor == admin_pb2.SUPERVISOR_UNSPECIFIED:
                raise OperatorError(f"{who} would start {name} again", f"restart it with {_TOOLS[process.supervisor]}")
            admin.exit()
            return who

    def refuse_foreign(self, name: str, act: str) -> OperatorError:
        """The error that a process without a supervisor of nnhal cannot be stopped or killed here."""
        with self.admin(self.find(name)) as admin:
            process = admin.process()
        refusal = f"{name} cannot be {act} here: {foreign_supervisor(process)} supervises it"
        return OperatorError(refusal, f"use {_TOOLS[process.supervisor]}")

    def close(self) -> None:
        """End the session with the supervisor."""
        self._forget_supervisor()

    def _forget_supervisor(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
        self._supervisor = None


def split_id(text: str, what: str) -> tuple[str, str]:
    """Split PROCESS/ID. Raises ValueError."""
    process, _, identity = text.partition("/")
    if not process or not identity:
        raise ValueError(f"{what} {text!r}, expected PROCESS/ID as 'nnhal show {what}s' prints it, such as cpu_ref/s3")
    return process, identity
