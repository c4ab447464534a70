"""FaultService: faults on purpose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import grpc

from nnhal.errors import general_failure, invalid_argument
from nnhal.v1 import faults_pb2 as wire
from nnhal.v1 import faults_pb2_grpc
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import answers

if TYPE_CHECKING:
    from nnhal_devices.faults.fault_set import FaultSet
    from nnhal_devices.faults.injection import DeviceFaults

_log = get_logger(__name__)


class FaultServicer(faults_pb2_grpc.FaultServiceServicer):
    """FaultService over gRPC."""

    def __init__(self, faults: DeviceFaults | None, clients: ClientSessions) -> None:
        """``faults`` are None if the process takes none."""
        self._faults = faults
        self._clients = clients

    @answers
    def SetFaults(self, request: wire.SetFaultsRequest, context: grpc.ServicerContext) -> wire.SetFaultsResponse:
        faults = self._allowed(context)
        from nnhal_hosting.faults import FaultDocumentError, read_document  # by processes that take faults only

        try:
            names = faults.set(read_document(request.document))
        except FaultDocumentError as error:
            invalid_argument(str(error))
        _log.warning("faults were set", faults=", ".join(names), client=self._clients.of(context).session.title)
        return wire.SetFaultsResponse(names=names)

    @answers
    def ListFaults(self, request: wire.ListFaultsRequest, context: grpc.ServicerContext) -> wire.ListFaultsResponse:
        faults = self._allowed(context)
        states = [
            wire.FaultState(
                name=state.name,
                document=state.fault.model_dump_json(exclude_unset=True),
                met=state.met,
                injected=state.injected,
            )
            for state in faults.states()
        ]
        return wire.ListFaultsResponse(faults=states, injected=faults.injected)

    @answers
    def ClearFaults(self, request: wire.ClearFaultsRequest, context: grpc.ServicerContext) -> wire.ClearFaultsResponse:
        cleared = self._allowed(context).clear(request.names)
        _log.warning("faults were cleared", count=cleared, client=self._clients.of(context).session.title)
        return wire.ClearFaultsResponse(cleared=cleared)

    def _allowed(self, context: grpc.ServicerContext) -> FaultSet:
        """The faults, for the user that runs the process. Raises HalError."""
        session, own = self._clients.of(context).session, os.geteuid()
        if session.uid != own:
            general_failure(f"faults may be set by user {own} only, who runs the device; the call is of {session.uid}")
        if self._faults is None:
            general_failure("the device takes no faults: expected it to be started with --allow-faults")
        return self._faults.set
