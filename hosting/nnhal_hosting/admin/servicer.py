"""AdminService over gRPC, the same in every process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Protocol

import grpc

from nnhal.errors import invalid_argument
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import admin_pb2_grpc
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.admin.oversight import Oversight
from nnhal_hosting.admin.usage import command_of, process_usage, user_name
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_hosting.kept_lines import KEPT
from nnhal_hosting.link_server import LinkServer
from nnhal_hosting.logs import get_logger, shown_level
from nnhal_hosting.process_start import process_started_ns
from nnhal_hosting.rpc import answers
from nnhal_hosting.server import ServerProcess
from nnhal_hosting.sessions import Ownership, Sessions


class Administered(Protocol):
    """A device host or the framework, as its AdminService sees it. Safe to use from several threads.

    Sessions are named by their public ids (``Ownership.session.id``).
    """

    @property
    def kind(self) -> str:
        """Return what the process is: device or framework."""
        ...

    @property
    def name(self) -> str:
        """The driver's name, or framework."""
        ...

    @property
    def sessions(self) -> Sessions[Ownership]: ...

    @property
    def draining(self) -> bool:
        """Return whether it takes no new work."""
        ...

    def objects_of(self, owner: Ownership) -> Sequence[wire.ObjectCount]:
        """Count what a session owns, by kind, without the kinds that it owns nothing of."""
        ...

    def fill(self, response: wire.GetProcessResponse, session: str | None, brief: bool) -> None:
        """Add executions and, unless it is ``brief``, pools, buffers and fences.

        They are those of the session of a public id, or with None all.
        """
        ...

    def cancel(self, execution: str, session: str | None) -> bool:
        """Cancel an execution by its public id; return whether it has ended.

        Raises INVALID_ARGUMENT if there is none of that id, or if it belongs to another session than the one named.
        """
        ...

    def drain(self, drain: bool) -> int:
        """Take no new work, or take work again; return how many executions run or wait."""
        ...

    def set_log_level(self, level: str) -> None:
        """Log from a level of ``LEVELS`` on, in the processes that serve for this one too."""
        ...


_LEVELS = ("debug", "info", "warning", "error")
_LINES = 200
"""Log lines of one answer if the caller does not say how many."""
_log = get_logger(__name__)


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Service of a process for operators; admin.proto describes the methods."""

    def __init__(
        self, administered: Administered, guard: OperatorGuard, links: LinkServer, oversight: Oversight
    ) -> None:
        """``links`` are those of the process's sessions."""
        self._administered = administered
        self._guard = guard
        self._links = links
        self._oversight = oversight
        self._started_ns = process_started_ns(os.getpid()) or time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    @answers
    def GetProcess(self, request: wire.GetProcessRequest, context: grpc.ServicerContext) -> wire.GetProcessResponse:
        caller, is_whole = self._guard.caller(context), self._guard.is_operator(context)
        administered = self._administered
        response = wire.GetProcessResponse(
            name=administered.name,
            kind=administered.kind,
            pid=os.getpid(),
            version=_version(),
            started_ns=self._started_ns,
            supervisor=self._oversight.supervisor,
            draining=administered.draining,
            log_level=shown_level(),
            is_whole=is_whole,
            usage=process_usage(),
        )
        owners = [] if request.brief else administered.sessions.all() if is_whole else [caller]
        for owner in with_pauses(sorted(owners, key=lambda owner: owner.session.opened_ns), 4):
            response.sessions.append(self._session(owner, owner is caller))
        administered.fill(response, None if is_whole else caller.session.id, request.brief)
        response.at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return response

    @answers
    def EndSession(self, request: wire.EndSessionRequest, context: grpc.ServicerContext) -> wire.EndSessionResponse:
        caller = self._guard.caller(context)
        if request.session != caller.session.id:
            self._guard.require_operator(context, "end a session of another client")
        self._links.end(request.session)
        return wire.EndSessionResponse()

    @answers
    def CancelExecution(
        self, request: wire.CancelExecutionRequest, context: grpc.ServicerContext
    ) -> wire.CancelExecutionResponse:
        caller = self._guard.caller(context)
        session = None if self._guard.is_operator(context) else caller.session.id
        return wire.CancelExecutionResponse(ended=self._administered.cancel(request.execution, session))

    @answers
    def Drain(self, request: wire.DrainRequest, context: grpc.ServicerContext) -> wire.DrainResponse:
        self._guard.require_operator(context, "drain the process")
        executions = self._administered.drain(request.drain)
        _log.info("draining" if request.drain else "taking new work", executions=executions)
        return wire.DrainResponse(executions=executions)

    @answers
    def Exit(self, request: wire.ExitRequest, context: grpc.ServicerContext) -> wire.ExitResponse:
        self._guard.require_operator(context, "end the process")
        _log.info("an operator ends the process")
        if not context.add_callback(self._oversight.exit):  # the call is over already
            self._oversight.exit()
        return wire.ExitResponse()

    @answers
    def SetLogLevel(self, request: wire.SetLogLevelRequest, context: grpc.ServicerContext) -> wire.SetLogLevelResponse:
        self._guard.require_operator(context, "change the level of the log")
        if request.level not in _LEVELS:
            invalid_argument(f"log level {request.level!r}, expected one of {', '.join(_LEVELS)}")
        self._administered.set_log_level(request.level)
        return wire.SetLogLevelResponse()

    @answers
    def GetLogLines(self, request: wire.GetLogLinesRequest, context: grpc.ServicerContext) -> wire.GetLogLinesResponse:
        self._guard.require_operator(context, "read the log")
        if request.after < 0 or request.most < 0:
            invalid_argument(f"lines after {request.after}, at most {request.most}; expected no negative numbers")
        lines, last = KEPT.after(request.after, request.most or _LINES)
        name = self._administered.name
        return wire.GetLogLinesResponse(
            lines=[
                wire.LogLine(
                    number=line.number,
                    at_ns=line.at_ns,
                    process=name,
                    level=line.level,
                    text=line.text,
                    request_id=line.request_id,
                )
                for line in lines
            ],
            last=last,
        )

    def _session(self, owner: Ownership, is_own: bool) -> wire.SessionState:
        session = owner.session
        return wire.SessionState(
            id=session.id,
            pid=session.pid,
            uid=session.uid,
            user=user_name(session.uid),
            command=command_of(session),
            client_name=session.client_name,
            opened_ns=session.opened_ns,
            descriptors=len(session.descriptors),
            objects=self._administered.objects_of(owner),
            is_own=is_own,
            owner=session.owner,
        )


@cache
def _version() -> str:
    return version("nnhal")


ADMIN_SERVICE = wire.DESCRIPTOR.services_by_name["AdminService"].full_name
"""The name by which reflection offers it."""


def serve_admin(process: ServerProcess, administered: Administered, oversight: Oversight) -> OperatorGuard:
    """Serve AdminService for a process, and return the guard for the services beside it.

    The process must have been made with the keys of the same ``oversight``.
    """
    guard = OperatorGuard(administered.sessions, oversight.keys)
    servicer = AdminServicer(administered, guard, process.link, oversight)
    process.serve_operators(admin_pb2_grpc.add_AdminServiceServicer_to_server, servicer)
    return guard
