"""SupervisorService over gRPC: what operators ask of a supervisor."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakSet

import grpc

from nnhal.errors import general_failure, invalid_argument
from nnhal.v1 import supervisor_pb2 as wire
from nnhal.v1 import supervisor_pb2_grpc
from nnhal_hosting.admin.changes import completed_change
from nnhal_hosting.admin.usage import is_in_own_pid_namespace
from nnhal_hosting.link_server import Session
from nnhal_hosting.rpc import answers
from nnhal_hosting.sessions import Ownership, Sessions
from nnhal_tools.up.commands import ProcessCommands
from nnhal_tools.up.drivers import DriverNames
from nnhal_tools.up.testbed import Testbed

I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output


def _for_own_user(
    method: Callable[[SupervisorServicer, I, grpc.ServicerContext], O],
) -> Callable[[SupervisorServicer, I, grpc.ServicerContext], O]:
    """Answer a call if it is of the user who runs the supervisor, and of a process that the supervisor sees."""

    @functools.wraps(method)
    def call(self: SupervisorServicer, request: I, context: grpc.ServicerContext) -> O:
        self.require_own_user(context)
        return method(self, request, context)

    return answers(call)


class SupervisorServicer(supervisor_pb2_grpc.SupervisorServiceServicer):
    """Service of a supervisor for operators; supervisor.proto describes the methods."""

    def __init__(self, testbed: Testbed, commands: ProcessCommands, sessions: Sessions[Ownership]) -> None:
        self._testbed = testbed
        self._commands = commands
        self._sessions = sessions
        self._drivers = DriverNames()
        self._seen: WeakSet[Session] = WeakSet()
        """Sessions whose processes are in the supervisor's PID namespace."""

    def require_own_user(self, context: grpc.ServicerContext) -> None:
        """Refuse a call of another user, or from another PID namespace. Raises GENERAL_FAILURE.

        Raises INVALID_ARGUMENT if the call names no open session.
        """
        session, own = self._sessions.of(context).session, os.geteuid()
        if session.uid != own:
            general_failure(f"only user {own}, who runs the supervisor, may ask it, not user {session.uid}")
        # A supervisor without free descriptors can look at no process, and is then asked most.
        if session not in self._seen and is_in_own_pid_namespace(session):
            self._seen.add(session)
        if session not in self._seen:
            general_failure("only processes of the supervisor's own PID namespace may ask it; this one is in another")

    @_for_own_user
    def ListProcesses(
        self, request: wire.ListProcessesRequest, context: grpc.ServicerContext
    ) -> wire.ListProcessesResponse:
        return wire.ListProcessesResponse(
            processes=[process.describe() for process in self._testbed.processes],
            directory=str(self._testbed.directory),
            pid=os.getpid(),
            drivers=self._drivers.get(),
        )

    @_for_own_user
    def StartDevice(self, request: wire.StartDeviceRequest, context: grpc.ServicerContext) -> wire.StartDeviceResponse:
        return wire.StartDeviceResponse(process=self._commands.add_device(request).describe())

    @_for_own_user
    def StartProcess(
        self, request: wire.StartProcessRequest, context: grpc.ServicerContext
    ) -> wire.StartProcessResponse:
        return wire.StartProcessResponse(process=self._commands.start(request.name).describe())

    @_for_own_user
    def StopProcess(self, request: wire.StopProcessRequest, context: grpc.ServicerContext) -> wire.StopProcessResponse:
        self._commands.stop(request.name, request.drain)
        return wire.StopProcessResponse()

    @_for_own_user
    def RestartProcess(
        self, request: wire.RestartProcessRequest, context: grpc.ServicerContext
    ) -> wire.RestartProcessResponse:
        return wire.RestartProcessResponse(process=self._commands.restart(request.name, request.drain).describe())

    @_for_own_user
    def KillProcess(self, request: wire.KillProcessRequest, context: grpc.ServicerContext) -> wire.KillProcessResponse:
        return wire.KillProcessResponse(pid=self._commands.kill(request.name, request.signal))

    @_for_own_user
    def DrainProcess(
        self, request: wire.DrainProcessRequest, context: grpc.ServicerContext
    ) -> wire.DrainProcessResponse:
        return self._commands.drain(request.name, request.seconds)

    @_for_own_user
    def RemoveDevice(
        self, request: wire.RemoveDeviceRequest, context: grpc.ServicerContext
    ) -> wire.RemoveDeviceResponse:
        self._commands.remove_device(request.name)
        return wire.RemoveDeviceResponse()

    @_for_own_user
    def TailLogs(self, request: wire.TailLogsRequest, context: grpc.ServicerContext) -> wire.TailLogsResponse:
        if request.after < 0 or request.most < 0:
            invalid_argument(f"lines after {request.after}, at most {request.most}; expected no negative numbers")
        return self._testbed.logs.tail(request.process, request.after, request.most)

    @_for_own_user
    def ListEvents(self, request: wire.ListEventsRequest, context: grpc.ServicerContext) -> wire.ListEventsResponse:
        return wire.ListEventsResponse(events=self._testbed.journal.after(request.after))

    @_for_own_user
    def NoteChange(self, request: wire.NoteChangeRequest, context: grpc.ServicerContext) -> wire.NoteChangeResponse:
        event = completed_change(request.change, self._sessions.of(context).session)
        self._testbed.journal.keep(event)
        self._testbed.logs.add(event.subject, f"{event.text} (by {event.who})")
        return wire.NoteChangeResponse()

    @_for_own_user
    def GetAdminKey(self, request: wire.GetAdminKeyRequest, context: grpc.ServicerContext) -> wire.GetAdminKeyResponse:
        return wire.GetAdminKeyResponse(key=self._testbed.admin_key)
