"""OpenModel: models of the server's repository for native clients."""

from __future__ import annotations

from typing import Protocol

import grpc

from nnhal.errors import HalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.client import Clients
from nnhal_service.native.convert import model_to_wire
from nnhal_service.repository import Lease
from nnhal_service.serving import ErrorKind, ServedModel, ServingError

_STATUSES = {
    ErrorKind.NOT_FOUND: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.INVALID_ARGUMENT: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.UNAVAILABLE: ErrorStatus.DEVICE_UNAVAILABLE,
}


class ServedModels(Protocol):
    """The repository, as far as native clients see it."""

    def model(self, name: str, version: str = "") -> Lease[ServedModel]:
        """Hold a version of a model, the newest that is ready where none is named. Raises ServingError."""


class ModelServicer:
    """The part of FrameworkService that opens models of the repository."""

    _clients: Clients
    _models: ServedModels | None

    @answers
    def OpenModel(self, request: wire.OpenModelRequest, context: grpc.ServicerContext) -> wire.OpenModelResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        if not request.name:
            invalid_argument("a model needs a name")
        if self._models is None:
            invalid_argument(f"model {request.model!r} is asked for, and this framework has no model repository")
        try:
            with self._models.model(request.model, request.version) as lease:
                model, version = lease.model.open(), lease.version
        except ServingError as error:
            status = _STATUSES.get(error.kind, ErrorStatus.GENERAL_FAILURE)
            raise HalError(status, error.message) from error
        client.add_model(request.name, model)
        return wire.OpenModelResponse(model=model_to_wire(request.name, model.prepared), version=version)
