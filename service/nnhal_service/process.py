"""The framework process."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.endpoint import Endpoint
from nnhal.link import Limits
from nnhal.serving import ServerProcess
from nnhal.v1 import framework_pb2, framework_pb2_grpc
from nnhal_service.native.client import Client, Clients
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.runtime import Fleet
from nnhal_service.settings import ServiceSettings


def serve(endpoint: Endpoint, devices: Mapping[str, Endpoint], settings: ServiceSettings) -> ServerProcess:
    """The servers of the framework, to be entered. Raises OSError or ValueError for an endpoint of no use."""
    clients = Clients(Client)
    limits = Limits(descriptors_per_session=settings.max_descriptors, sessions=settings.max_sessions)
    process = ServerProcess(endpoint, clients.opened, limits, settings.rpc_threads, settings.allowed_uids)
    servicer = FrameworkServicer(Fleet(devices), clients, settings.cache_directory)
    framework_pb2_grpc.add_FrameworkServiceServicer_to_server(servicer, process.rpc)
    process.reflect([service.full_name for service in framework_pb2.DESCRIPTOR.services_by_name.values()])
    return process
