"""grpc.health.v1 for the server, its service and each model."""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health_pb2

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.calls import GrpcContext
from nnhal_service.v2.grpc.servicer import SERVICE

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
MODEL_PREFIX = "nnhal.model."
"""The prefix of a model's name, which has no version."""
_READY = "READY"
_Request = health_pb2.HealthCheckRequest
_Response = health_pb2.HealthCheckResponse
_Status = health_pb2.HealthCheckResponse.ServingStatus


class ModelHealth:
    """Answers with the repository's state; ``refresh`` tells watchers of a change.

    The server and the service are SERVING if the repository is ready, a model if a version of it is. No file is read.
    gRPC's own servicer keeps the states itself, and its watchers of one name forget one another.
    """

    def __init__(self, repository: ModelRepository, loop: ServingLoop) -> None:
        self._repository = repository
        self._loop = loop
        self._changes: set[asyncio.Event] = set()
        """One for each watcher."""
        self._is_ending = False

    def refresh(self) -> None:
        """Tell watchers what has changed. May be called from any thread."""
        self._loop.call(self._wake)

    def end(self) -> None:
        """From now on nothing is serving: tell watchers, whose calls then end. Call it in the loop."""
        self._is_ending = True
        self._wake()

    async def check(self, request: _Request, context: GrpcContext) -> _Response:
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            raise ServingError(ErrorKind.NOT_FOUND, "no such service, and no such model")
        return _Response(status=status)

    async def watch(self, request: _Request, context: GrpcContext) -> None:
        """Answer a Watch call, until its client ends it."""
        change = asyncio.Event()
        self._changes.add(change)
        try:
            said: _Status | None = None
            while True:
                change.clear()
                is_last, status = self._is_ending, self._status(request.service)
                if status != said:
                    await context.write(_Response(status=status).SerializeToString())
                    said = status
                if is_last:
                    return
                await change.wait()
        finally:
            self._changes.discard(change)

    def _wake(self) -> None:
        for change in self._changes:
            change.set()

    def _status(self, service: str) -> _Status:
        if service in ("", SERVICE.full_name):
            is_serving = self._repository.ready()
        else:
            name = service.removeprefix(MODEL_PREFIX)
            states = {entry.state for entry in self._repository.known(name)} if name != service else set()
            if not states:
                return _Response.SERVICE_UNKNOWN
            is_serving = _READY in states
        return _Response.SERVING if is_serving and not self._is_ending else _Response.NOT_SERVING
