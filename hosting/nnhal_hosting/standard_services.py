"""gRPC's own services for a process: grpc.health.v1 and server reflection.

gRPC's health servicer has watchers of one name forget one another. Of reflection, nothing is imported until a client
asks for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import grpc
from grpc_health.v1 import health_pb2 as wire
from grpc_health.v1 import health_pb2_grpc

WATCH = f"/{wire.DESCRIPTOR.services_by_name['Health'].full_name}/Watch"


class ProcessHealth(health_pb2_grpc.HealthServicer):
    """Says that services serve, until the process ends. Safe to use from several threads."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changed = threading.Condition()
        self._is_ending = False

    def serve(self, name: str) -> None:
        """From now on, a service is serving; the empty name is the process."""
        with self._changed:
            self._names.add(name)
            self._changed.notify_all()

    def end(self) -> None:
        """From now on nothing is serving: tell watchers, whose calls then end."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    def Check(self, request: wire.HealthCheckRequest, context: grpc.ServicerContext) -> wire.HealthCheckResponse:
        status = self._status(request.service)
        if status == wire.HealthCheckResponse.SERVICE_UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return wire.HealthCheckResponse(status=status)

    def Watch(
        self, request: wire.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.HealthCheckResponse]:
        """Answer a Watch call, until its client ends it."""
        if not context.add_callback(self._wake):
            return
        said: wire.HealthCheckResponse.ServingStatus | None = None
        while True:
            with self._changed:
                while not self._is_ending and self._status(request.service) == said and context.is_active():
                    self._changed.wait()
                is_last, status = self._is_ending, self._status(request.service)
            if not context.is_active():
                return
            if status != said:
                yield wire.HealthCheckResponse(status=status)
                said = status
            if is_last:
                return

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _status(self, name: str) -> wire.HealthCheckResponse.ServingStatus:
        if name not in self._names:
            return wire.HealthCheckResponse.SERVICE_UNKNOWN
        return wire.HealthCheckResponse.NOT_SERVING if self._is_ending else wire.HealthCheckResponse.SERVING


SERVICE_NAME = "grpc.reflection.v1alpha.ServerReflection"
_METHOD = "ServerReflectionInfo"
REFLECT = f"/{SERVICE_NAME}/{_METHOD}"


def reflection_handler(services: Sequence[str]) -> grpc.GenericRpcHandler[Any, Any]:
    """Return what answers for the named services, whose descriptors are in protobuf's default pool."""

    @cache
    def servicer() -> Any:
        from grpc_reflection.v1alpha import reflection

        return reflection.ReflectionServicer(services)

    def answer(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        answers: Iterator[Any] = servicer().ServerReflectionInfo(requests, context)
        return answers

    handler = grpc.stream_stream_rpc_method_handler(answer, _decoded, lambda response: response.SerializeToString())
    return grpc.method_handlers_generic_handler(SERVICE_NAME, {_METHOD: handler})


def _decoded(raw: bytes) -> Any:
    from grpc_reflection.v1alpha import reflection_pb2

    return reflection_pb2.ServerReflectionRequest.FromString(raw)
