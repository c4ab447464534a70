"""The supervisor's control socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nnhal.remote.supervisor import supervisor_endpoint
from nnhal.v1 import supervisor_pb2, supervisor_pb2_grpc
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_hosting.sessions import Ownership, Sessions
from nnhal_tools.up.commands import ProcessCommands
from nnhal_tools.up.servicer import SupervisorServicer
from nnhal_tools.up.testbed import Testbed
from nnhal_tools.up.topology import FRAMEWORK

_CALLS = CallLimits(threads=64)
"""Calls at a time. A drain, or a start of the framework, may take minutes."""
_SERVICE = supervisor_pb2.DESCRIPTOR.services_by_name["SupervisorService"].full_name


@contextmanager
def controlled(testbed: Testbed) -> Iterator[None]:
    """Run a testbed with its control socket, which serves before the first process does.

    A socket that does not answer is logged: nobody may be there to start the supervisor again, and all processes with
    it. Raises StartError if a process does not start, and OSError or ValueError for a bad directory.
    """
    commands = ProcessCommands(testbed)
    sessions: Sessions[Ownership] = Sessions(Ownership)
    endpoint = supervisor_endpoint(testbed.directory)
    endpoint.create("--directory")
    server = ServerProcess(endpoint, sessions.opened, SessionLimits(), _CALLS)
    servicer = SupervisorServicer(testbed, commands, sessions)
    supervisor_pb2_grpc.add_SupervisorServiceServicer_to_server(servicer, server.rpc)
    server.reflect([_SERVICE])
    testbed.process(FRAMEWORK).restarted = commands.framework_started
    with server:
        try:
            with testbed:
                yield
        finally:
            commands.close()
