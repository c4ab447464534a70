"""Well-formed requests of every call of a device, to be put to extremes."""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nnhal.codec.memory import memory_to_wire
from nnhal.endpoint import Endpoint
from nnhal.fence import Fence
from nnhal.link import Link
from nnhal.memory import create_ashmem, create_blob
from nnhal.v1 import (
    admin_pb2,
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    prepared_model_pb2,
    request_pb2,
    types_pb2,
)
from nnhal_conformance.session import Datagrams, DeviceSession, RawLink
from tests.support.additions import POOL_BYTES, TENSOR_BYTES, Addition, addition_model, addition_of_constant
from tests.support.calls import NO_TOKEN
from tests.support.waiting import SECONDS

_FILES = (
    admin_pb2,
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    prepared_model_pb2,
)
_SECONDS = 60


class Failure(NamedTuple):
    """Way in which a call failed."""

    status: grpc.StatusCode
    message: str


def methods_of(*files: Any) -> list[MethodDescriptor]:
    """All calls of the services in some files of the contract."""
    return [
        method for file in files for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
    ]


def device_methods() -> list[MethodDescriptor]:
    return methods_of(*_FILES)


def name_of(method: MethodDescriptor) -> str:
    return f"{method.containing_service.name}.{method.name}"


def answer(
    channel: grpc.Channel,
    method: MethodDescriptor,
    request: Message,
    metadata: Any = (),
    link: Link | RawLink | None = None,
) -> Failure | None:
    """Make a call and return how it failed; None if it did not. What it launches has ended then, if ``link`` is given.

    Until then the callback, the execution or the binding would refuse the next call, as the contract wants it.
    """
    path = f"/{method.containing_service.full_name}/{method.name}"
    answers = GetMessageClass(method.output_type).FromString
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    call: Any = getattr(channel, kind)(path, type(request).SerializeToString, answers)
    try:
        reply = call(iter([request]) if method.client_streaming else request, metadata=metadata, timeout=_SECONDS)
        if method.server_streaming:
            list(reply)
        elif link is not None:
            wait_for_launch(link, reply)
    except grpc.RpcError as error:
        return Failure(error.code(), error.details() or "")
    return None


def wait_for_launch(link: Link | RawLink, reply: Any) -> None:
    """Wait for the end of what a call has launched, well or not; do nothing if it has launched nothing."""
    fence = getattr(reply, "fence_descriptor_id", 0) or getattr(
        getattr(reply, "result", None), "sync_fence_descriptor_id", 0
    )
    if fence:
        taken = link.take(fence, "a fence") if isinstance(link, RawLink) else link.take(fence)
        Fence.received(taken).wait_for_end()


_FOR_OPERATORS = {"EndSession", "Drain", "Exit", "SetLogLevel", "GetLogLines", "GetFigures", "MeasureOperations"}
"""Refused for want of a key, whatever the request says."""
DEVICE_METHODS = {name_of(each): each for each in device_methods() if each.name not in _FOR_OPERATORS}
"""Methods of a device that any client may call, by their names."""


class WellFormed(DeviceSession):
    """A session with one object of each kind, and requests that name them."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SECONDS)
        self._memory = create_ashmem(POOL_BYTES)
        request = self.request(Addition(self._memory).request)
        model = self.model(addition_of_constant(create_blob(TENSOR_BYTES)))
        part = request_pb2.RequestMemoryPool(pool=memory_to_wire(create_blob(TENSOR_BYTES), self.link.issue)).pool
        prepared = self.prepare(addition_model())
        execution = self.call(
            self.prepared_model.CreateReusableExecution,
            prepared_model_pb2.CreateReusableExecutionRequest(prepared_model=prepared, request=request),
        ).execution
        burst = self.call(
            self.prepared_model.ConfigureExecutionBurst,
            prepared_model_pb2.ConfigureExecutionBurstRequest(prepared_model=prepared),
        ).burst
        fenced = self.call(
            self.prepared_model.ExecuteFenced,
            prepared_model_pb2.PreparedModelServiceExecuteFencedRequest(
                prepared_model=prepared, request=request, deadline_ns=-1, loop_timeout_duration_ns=-1, duration_ns=-1
            ),
        )
        wait_for_launch(self.link, fenced)
        roles = [device_pb2.BufferRole(model_index=0, io_index=0, probability=1.0)]
        buffer = self.call(
            self.device.Allocate, device_pb2.AllocateRequest(prepared_models=[prepared], input_roles=roles)
        ).buffer
        self.call(self.buffer.CopyFrom, buffer_pb2.CopyFromRequest(buffer=buffer, src=part))
        self._given: dict[str, Any] = {
            "model": model,
            "request": request,
            "prepared_model": prepared,
            "prepared_models": [prepared],
            "input_roles": roles,
            "execution": execution,
            "burst": burst,
            "callback": fenced.result.callback,
            "buffer": buffer,
            "memory_identifier_tokens": [-1],
            "src": part,
            "dst": part,
            "deadline_ns": -1,
            "loop_timeout_duration_ns": -1,
            "duration_ns": -1,
            "token": NO_TOKEN,
            "cache_token": NO_TOKEN,
            "event": 1,
            "preference": types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            "priority": types_pb2.PRIORITY_MEDIUM,
            "config": None,
        }

    def request_of(self, method: MethodDescriptor) -> Message:
        request: Message = self._filled(method.input_type)
        return request

    def burst_call(self) -> burst_pb2.BurstCall:
        execute = burst_pb2.BurstServiceExecuteSynchronouslyRequest()
        execute.request.CopyFrom(self._given["request"])
        execute.memory_identifier_tokens.append(-1)
        return burst_pb2.BurstCall(execute=execute)

    def open_burst(self) -> Datagrams:
        asked = prepared_model_pb2.ConfigureExecutionBurstRequest(prepared_model=self._given["prepared_model"])
        answer = self.call(self.prepared_model.ConfigureExecutionBurst, asked)
        return self.take_socket(answer.channel_descriptor_id, "a channel")

    def launch_call(self) -> execution_pb2.LaunchCall:
        return execution_pb2.LaunchCall(launch=execution_pb2.Launch(execution=self._given["execution"]))

    def open_launch_channel(self) -> Datagrams:
        answer = self.call(self.execution.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest())
        return self.take_socket(answer.channel_descriptor_id, "a channel")

    def answer(self, method: MethodDescriptor, request: Message) -> Failure | None:
        """Make a call and return how it failed; None if it did not."""
        return answer(self.rpc, method, request, self.metadata, self.link)

    def _filled(self, kind: Any) -> Any:
        message = GetMessageClass(kind)()
        for field in kind.fields:
            if field.name not in self._given:
                continue
            given = self._given[field.name]
            if field.message_type is not None and not field.is_repeated:
                getattr(message, field.name).CopyFrom(given if given is not None else self._filled(field.message_type))
            elif field.is_repeated:
                getattr(message, field.name).extend(given)
            elif field.cpp_type != field.CPPTYPE_STRING or isinstance(given, str | bytes):
                setattr(message, field.name, given)
        return message
