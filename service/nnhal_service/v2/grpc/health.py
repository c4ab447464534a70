"""grpc.health.v1 of the server, of the service and of each model."""

from __future__ import annotations

import threading
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.handlers import SERVICE

MODEL_PREFIX = "nnhal.model."
"""A model's name comes after it, without a version."""
_READY = "READY"
_Response = health_pb2.HealthCheckResponse
_Status = health_pb2.HealthCheckResponse.ServingStatus


class ModelHealth(health.HealthServicer):
    """Answers what the repository says at that moment; whoever changes a model calls ``refresh`` for those who watch.

    The server and the service serve when the repository is ready, a model when a version of it is. No file is read.
    """

    def __init__(self, repository: ModelRepository) -> None:
        # A client that watches then holds no thread.
        super().__init__(experimental_non_blocking=True)
        self._repository = repository
        self._said: dict[str, _Status] = {}
        self._refreshing = threading.Lock()

    def refresh(self, model: str = "") -> None:
        """Tell those who watch what has changed: of a model, where one is named, and of the server."""
        with self._refreshing:
            ready = _Response.SERVING if self._repository.ready() else _Response.NOT_SERVING
            self._say("", ready)
            self._say(SERVICE.full_name, ready)
            if model:
                self._say(MODEL_PREFIX + model, self._status(model))

    def Check(self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> _Response:  # noqa: N802
        self._look(request.service)
        response: _Response = super().Check(request, context)
        if response.status == _Response.SERVICE_UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service, and no such model")
        return response

    def Watch(self, request: health_pb2.HealthCheckRequest, *arguments: Any) -> Any:  # noqa: N802
        self._look(request.service)
        return super().Watch(request, *arguments)

    def _look(self, service: str) -> None:
        self.refresh(service.removeprefix(MODEL_PREFIX) if service.startswith(MODEL_PREFIX) else "")

    def _say(self, service: str, status: _Status) -> None:
        """Only what is new: names that there never were are not kept."""
        if self._said.get(service, _Response.SERVICE_UNKNOWN) != status:
            self._said[service] = status
            self.set(service, status)

    def _status(self, model: str) -> _Status:
        states = {entry.state for entry in self._repository.known(model)}
        if not states:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if _READY in states else _Response.NOT_SERVING
