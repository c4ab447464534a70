"""Adding AdminService, and what stands beside it, to a process's servers."""

from __future__ import annotations

from nnhal.v1 import admin_pb2, admin_pb2_grpc
from nnhal_hosting.admin.administered import Administered
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.admin.oversight import Oversight
from nnhal_hosting.admin.servicer import AdminServicer
from nnhal_hosting.server import ServerProcess

ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
"""The name by which reflection offers it."""


def serve_admin(process: ServerProcess, administered: Administered, oversight: Oversight) -> OperatorGuard:
    """Serve AdminService for a process, and return the guard for the services beside it.

    The process must have been made with the keys of the same ``oversight``.
    """
    guard = OperatorGuard(administered.sessions, oversight.keys)
    servicer = AdminServicer(administered, guard, process.link, oversight)
    process.serve_operators(admin_pb2_grpc.add_AdminServiceServicer_to_server, servicer)
    return guard
