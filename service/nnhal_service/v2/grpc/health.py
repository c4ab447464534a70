"""grpc.health.v1 for the server, its service and each model."""

from __future__ import annotations

import threading
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.servicer import SERVICE

MODEL_PREFIX = "nnhal.model."
"""The prefix of a model's name, which has no version."""
_READY = "READY"
_Response = health_pb2.HealthCheckResponse
_Status = health_pb2.HealthCheckResponse.ServingStatus


class ModelHealth(health.HealthServicer):
    """Answers with the repository's state; ``refresh`` tells watchers of a change.

    The server and the service are SERVING if the repository is ready, a model if a version of it is. No file is read.
    """

    def __init__(self, repository: ModelRepository) -> None:
        # So that a client that watches holds no thread.
        super().__init__(experimental_non_blocking=True)
        self._repository = repository
        self._said: dict[str, _Status] = {}
        self._refreshing = threading.Lock()

    def refresh(self, model: str = "") -> None:
        """Tell watchers the state of the server, and of a model if one is named."""
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
        """Set a status if it is new; unknown names are not kept."""
        if self._said.get(service, _Response.SERVICE_UNKNOWN) != status:
            self._said[service] = status
            self.set(service, status)

    def _status(self, model: str) -> _Status:
        states = {entry.state for entry in self._repository.known(model)}
        if not states:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if _READY in states else _Response.NOT_SERVING
