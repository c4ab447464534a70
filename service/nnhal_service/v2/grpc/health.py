"""grpc.health.v1 of the server, of the service and of each model."""

from __future__ import annotations

import threading

import grpc
from grpc_health.v1 import health, health_pb2

from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.handlers import SERVICE

MODEL_PREFIX = "nnhal.model."
"""A model's name comes after it, without a version."""
_READY = "READY"
_Response = health_pb2.HealthCheckResponse


class ModelHealth(health.HealthServicer):
    """Answers what the repository says at that moment; whoever changes models calls ``refresh`` for those who watch.

    The server and the service serve when the repository is ready, a model when a version of it is.
    """

    def __init__(self, repository: ModelRepository) -> None:
        # A client that watches then holds no thread.
        super().__init__(experimental_non_blocking=True)
        self._repository = repository
        self._states: dict[str, bool] = {}
        self._refreshing = threading.Lock()

    def refresh(self) -> None:
        """Tell those who watch what has changed."""
        with self._refreshing:
            before, self._states = self._states, self._now()
            for name, serving in self._states.items():
                if before.get(name) is not serving:
                    self.set(name, _Response.SERVING if serving else _Response.NOT_SERVING)
            for name in before.keys() - self._states.keys():
                self.set(name, _Response.SERVICE_UNKNOWN)

    def Check(self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> _Response:  # noqa: N802
        self.refresh()
        response: _Response = super().Check(request, context)
        if response.status == _Response.SERVICE_UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service, and no such model")
        return response

    def _now(self) -> dict[str, bool]:
        ready = self._repository.ready()
        states = {"": ready, SERVICE.full_name: ready}
        for entry in self._repository.index(ready_only=False):
            name = MODEL_PREFIX + entry.name
            states[name] = states.get(name, False) or entry.state == _READY
        return states
