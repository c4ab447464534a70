"""The proxy of a supervisor: SupervisorService (see supervisor.proto). Its answers are the messages of the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nnhal.admin import SUPERVISOR
from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.remote.admin import CLIENT_NAME
from nnhal.remote.calls import Calls
from nnhal.v1 import supervisor_pb2 as wire
from nnhal.v1 import supervisor_pb2_grpc

_LONGEST_START_SECONDS = 660.0
"""A framework has ten minutes to load its models."""
_LONGEST_STOP_SECONDS = 60.0
_DRAIN_SECONDS = 10.0
"""The time that a supervisor waits for a process to be idle if it is not told how long."""


class SupervisorControl(Closing):
    """The supervisor of a testbed. Use it as a context. Safe to use from several threads.

    Every method raises HalError if the supervisor refuses, TransportError if it does not answer in time, and
    DeadObjectError if it is gone.
    """

    def __init__(self, directory: Path, client_name: str = CLIENT_NAME, patience: float | None = None) -> None:
        """Open a session with the supervisor of the processes below ``directory``."""
        self._calls = Calls(supervisor_endpoint(directory), client_name, patience)
        self._supervisor = supervisor_pb2_grpc.SupervisorServiceStub(self._calls.rpc)

    @property
    def gone(self) -> bool:
        return self._calls.hung_up

    def processes(self) -> wire.ListProcessesResponse:
        """Return the processes, in the order of the topology, and how they fare."""
        return self._calls.call(self._supervisor.ListProcesses, wire.ListProcessesRequest())

    def start_device(
        self,
        driver: str = "",
        name: str = "",
        workers: int = 0,
        threads: int = 0,
        options: Mapping[str, str] | None = None,
        endpoint: str = "",
        command: Sequence[str] = (),
    ) -> wire.SupervisedProcess:
        """Start one more device, have the framework know it, and return it when it serves.

        It has a driver, or a command serves it; or it runs already, and its directory is the ``endpoint``.
        """
        request = wire.StartDeviceRequest(
            driver=driver,
            name=name,
            workers=workers,
            threads=threads,
            options=options or {},
            endpoint=endpoint,
            command=command,
        )
        return self._calls.call(self._supervisor.StartDevice, request, _LONGEST_START_SECONDS).process

    def start(self, name: str) -> wire.SupervisedProcess:
        """Start a process that was stopped or drained, and return it when it serves."""
        request = wire.StartProcessRequest(name=name)
        return self._calls.call(self._supervisor.StartProcess, request, _LONGEST_START_SECONDS).process

    def stop(self, name: str, drain: bool = False) -> None:
        """Stop a process until it is started again."""
        request = wire.StopProcessRequest(name=name, drain=drain)
        self._calls.call(self._supervisor.StopProcess, request, _LONGEST_STOP_SECONDS)

    def restart(self, name: str, drain: bool = False) -> wire.SupervisedProcess:
        """Stop a process, start it, and return it when it serves."""
        request = wire.RestartProcessRequest(name=name, drain=drain)
        return self._calls.call(self._supervisor.RestartProcess, request, _LONGEST_START_SECONDS).process

    def kill(self, name: str, signal: int = 0) -> int:
        """Send a signal, by default SIGKILL; return the process that got it."""
        return self._calls.call(self._supervisor.KillProcess, wire.KillProcessRequest(name=name, signal=signal)).pid

    def drain(self, name: str, seconds: float = 0.0) -> wire.DrainProcessResponse:
        """Have a process take no new work, and wait until it is idle; return what is left."""
        request = wire.DrainProcessRequest(name=name, seconds=seconds)
        return self._calls.call(
            self._supervisor.DrainProcess, request, (seconds or _DRAIN_SECONDS) + _LONGEST_STOP_SECONDS
        )

    def remove_device(self, name: str) -> None:
        """Stop a device that was started besides the topology, and have the framework forget it."""
        self._calls.call(self._supervisor.RemoveDevice, wire.RemoveDeviceRequest(name=name))

    def logs(self, process: str = "", after: int = 0, most: int = 0) -> wire.TailLogsResponse:
        """Return the last lines of one process, or of all, after the line of a number."""
        request = wire.TailLogsRequest(process=process, after=after, most=most)
        return self._calls.call(self._supervisor.TailLogs, request)

    def events(self, after: int = 0) -> list[wire.ProcessEvent]:
        """Return what has happened to processes, after the event of a number."""
        return list(self._calls.call(self._supervisor.ListEvents, wire.ListEventsRequest(after=after)).events)

    def note_change(self, change: wire.ProcessEvent) -> None:
        """Have the supervisor keep what an operator has done, as an event."""
        self._calls.call(self._supervisor.NoteChange, wire.NoteChangeRequest(change=change))

    def admin_key(self) -> str:
        """Return the key that the admin services of the processes ask for."""
        return self._calls.call(self._supervisor.GetAdminKey, wire.GetAdminKeyRequest()).key

    def close(self) -> None:
        self._calls.close()


def supervisor_endpoint(directory: Path) -> Endpoint:
    """Return the endpoint of the supervisor of the processes below ``directory``."""
    return Endpoint(directory / SUPERVISOR, SUPERVISOR)
