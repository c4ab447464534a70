"""A device at the level of messages, for requests that the remote objects never send."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, TypeVar

import grpc

from nnhal.codec import error_from_rpc, model_to_wire, request_to_wire
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.link import Channel, Link
from nnhal.remote import open_rpc
from nnhal.types import Model, Request
from nnhal.v1 import (
    backend_pb2_grpc,
    buffer_pb2_grpc,
    burst_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    execution_pb2_grpc,
    fenced_execution_callback_pb2_grpc,
    model_pb2,
    prepared_model_pb2_grpc,
    request_pb2,
    types_pb2,
)

T = TypeVar("T")
NO_TOKEN = bytes(32)


class PreparationEvent(Protocol):
    """An event in the stream of any call that prepares a model."""

    @property
    def preparation(self) -> device_pb2.Preparation: ...


class WireDevice:
    """A link, a gRPC channel and the stubs. Every call carries ``metadata``, which may be replaced."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._place = str(endpoint.directory)
        self.link = Link(endpoint.link, "test")
        self.rpc = open_rpc(endpoint)
        self.metadata = self.link.metadata
        self._channels: list[Channel] = []
        self.device = device_pb2_grpc.DeviceServiceStub(self.rpc)
        self.prepared_model = prepared_model_pb2_grpc.PreparedModelServiceStub(self.rpc)
        self.execution = execution_pb2_grpc.ExecutionServiceStub(self.rpc)
        self.burst = burst_pb2_grpc.BurstServiceStub(self.rpc)
        self.buffer = buffer_pb2_grpc.BufferServiceStub(self.rpc)
        self.callback = fenced_execution_callback_pb2_grpc.FencedExecutionCallbackServiceStub(self.rpc)
        self.backend = backend_pb2_grpc.BackendServiceStub(self.rpc)

    def call(self, method: Callable[..., T], message: Any) -> T:
        """Make a unary call. Raises HalError or TransportError."""
        try:
            return method(message, metadata=self.metadata)
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._place) from error

    def events(
        self, method: Callable[..., Iterable[PreparationEvent]], message: Any
    ) -> tuple[list[device_pb2.Preparation], NnhalError | None]:
        """Return the events of a preparation, and the error that ended its stream, if any."""
        events: list[device_pb2.Preparation] = []
        try:
            events.extend(event.preparation for event in method(message, metadata=self.metadata))
        except grpc.RpcError as error:
            return events, error_from_rpc(error, self._place)
        return events, None

    def model(self, model: Model) -> model_pb2.Model:
        return model_to_wire(model, self.link.issue)

    def request(self, request: Request) -> request_pb2.Request:
        return request_to_wire(request, self.link.issue)

    def prepare(self, model: Model) -> int:
        message = device_pb2.PrepareModelRequest(
            model=self.model(model),
            preference=types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            priority=types_pb2.PRIORITY_MEDIUM,
            deadline_ns=-1,
            token=NO_TOKEN,
        )
        events, error = self.events(self.device.PrepareModel, message)
        assert error is None, str(error)
        return events[-1].notified.prepared_model

    def take_channel(self, number: int) -> Channel:
        """Take a channel that a call has named; it is closed with the session at the latest."""
        channel = self.link.take_channel(number)
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self.link.close()
        self.rpc.close()

    def __enter__(self) -> WireDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
