"""Devices that answer as a test's script says: ``python -m tests.support.scripted ENDPOINT DIES [STOPS]``.

Real servers serve them over real sockets. A script has the answers of methods such as ``Device.GetType``: a message, a
list of messages if the method streams, or a function of the request and the call. Methods without a script are answered
as a healthy device does. The process kills itself when the method DIES is called, and sends itself SIGSTOP when the
method STOPS is called.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf.message_factory import GetMessageClass

from nnhal.codec import capabilities_to_wire
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import Signal, create_fence
from nnhal.link import channel_pair
from nnhal.remote import RemoteDevice
from nnhal.types import (
    Capabilities,
    OperandPerformance,
    OperandType,
    PerformanceInfo,
)
from nnhal.v1 import (
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
from nnhal_hosting.calls import CallLimits
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.rpc import abort
from nnhal_hosting.server import ServerProcess
from nnhal_hosting.sessions import Ownership, Sessions

VERSION = "scripted-1"
CPU = PerformanceInfo(1.0, 1.0)
CAPABILITIES = Capabilities(CPU, CPU, (OperandPerformance(OperandType.TENSOR_FLOAT32, CPU),), CPU, CPU)
SUCCESS = request_pb2.ExecutionResult(
    output_sufficient_size=True, timing=request_pb2.Timing(time_on_device_ns=-1, time_in_driver_ns=-1)
)
LAUNCHED = device_pb2.Preparation(launched=device_pb2.Launched())
_FILES = (
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    prepared_model_pb2,
)


@dataclass(frozen=True)
class Call:
    """A call that a script answers."""

    device: ScriptedDevice
    context: grpc.ServicerContext

    @property
    def owner(self) -> Ownership:
        """The call's session. Raises INVALID_ARGUMENT if it is not open."""
        return self.device.sessions.of(self.context)

    def offer(self, descriptor: Descriptor) -> int:
        return self.owner.descriptors.offer(descriptor)

    def channel(self, name: str, answer: Callable[[bytes], bytes]) -> int:
        """Serve a channel, offer its other end to the client, and return the descriptor's id."""
        ours, theirs = channel_pair()
        self.owner.serve(ours, name, answer, str.encode)
        return self.offer(theirs)

    def wait_for_the_end(self) -> NoReturn:
        """Hang until the client cancels the call."""
        ended = threading.Event()
        if self.context.add_callback(ended.set):
            ended.wait()
        self.context.abort(grpc.StatusCode.CANCELLED, "it took too long")
        raise AssertionError("aborting raises")


Behaviour = Callable[[Any, Call], Any]
Script = Mapping[str, Any]
"""Answers by method: a message, a list of messages, or a Behaviour."""
OnBurst = Callable[[burst_pb2.BurstCall], burst_pb2.BurstAnswer]
"""Answers a call on the channel of a burst."""


def notified(status: int = 0, handle: int = 0, message: str = "") -> device_pb2.Preparation:
    return device_pb2.Preparation(
        notified=device_pb2.Notified(
            status=types_pb2.ErrorStatus.ValueType(status), message=message, prepared_model=handle
        )
    )


def preparing(*events: device_pb2.Preparation) -> list[device_pb2.PrepareModelWithConfigResponse]:
    return [device_pb2.PrepareModelWithConfigResponse(preparation=event) for event in events]


def hang(request: Any, call: Call) -> NoReturn:
    call.wait_for_the_end()


def refuse(error: HalError) -> Behaviour:
    def behaviour(request: Any, call: Call) -> NoReturn:
        raise error

    return behaviour


class ScriptedDevice:
    """A device that serves while its context is entered. ``calls`` has all calls so far, with their requests.

    Its ``script`` may be changed between two calls.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        script: Script | None = None,
        on_burst: OnBurst | None = None,
    ) -> None:
        """``on_burst`` answers calls on the channels of bursts, by default with success."""
        self.endpoint = endpoint
        self.calls: list[tuple[str, Any]] = []
        self.burst_calls: list[burst_pb2.BurstCall] = []
        self.signals: list[Signal] = []
        self.handles = itertools.count(1)
        self.sessions = Sessions(Ownership)
        self._on_burst = on_burst or (lambda _: burst_pb2.BurstAnswer(result=SUCCESS))
        self.script = {**HEALTHY, **(script or {})}
        self._process = ServerProcess(endpoint, self.sessions.opened, SessionLimits(), CallLimits(threads=8))
        for service in (s for file in _FILES for s in file.DESCRIPTOR.services_by_name.values()):
            short = service.name.removesuffix("Service")
            handlers = {method.name: self._handler(f"{short}.{method.name}", method) for method in service.methods}
            generic = grpc.method_handlers_generic_handler(service.full_name, handlers)
            self._process.rpc.add_generic_rpc_handlers((generic,))

    def count(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    def answer_burst(self, message: bytes) -> bytes:
        call = burst_pb2.BurstCall.FromString(message)
        self.burst_calls.append(call)
        return self._on_burst(call).SerializeToString()

    def __enter__(self) -> ScriptedDevice:
        self._process.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.__exit__(kind, error, trace)
        for signal_ in self.signals:
            signal_.fail()

    def _handler(self, name: str, method: Any) -> grpc.RpcMethodHandler[Any, Any]:
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        answer = self._stream if method.server_streaming else self._unary
        return make(
            lambda request, context: answer(name, request, context),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
        )

    def _unary(self, name: str, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return self._answer(name, request, context)
        except HalError as error:
            abort(context, error)

    def _stream(self, name: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self._answer(name, request, context)
        except HalError as error:
            abort(context, error)

    def _answer(self, name: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.calls.append((name, request))
        call = Call(self, context)
        if not name.startswith("Device.Get"):
            self.sessions.of(context)
        answer = self.script.get(name)
        if answer is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not scripted")
        return answer(request, call) if callable(answer) else answer


def _supports_all(request: Any, call: Call) -> device_pb2.GetSupportedOperationsResponse:
    return device_pb2.GetSupportedOperationsResponse(supported=[True] * len(request.model.main.operations))


def _prepares(request: Any, call: Call) -> Sequence[Any]:
    return preparing(LAUNCHED, notified(handle=next(call.device.handles)))


def _allocates(request: Any, call: Call) -> device_pb2.AllocateResponse:
    return device_pb2.AllocateResponse(buffer=next(call.device.handles), token=next(call.device.handles))


def _creates(request: Any, call: Call) -> prepared_model_pb2.CreateReusableExecutionResponse:
    return prepared_model_pb2.CreateReusableExecutionResponse(execution=next(call.device.handles))


def _configures(request: Any, call: Call) -> prepared_model_pb2.ConfigureExecutionBurstResponse:
    number = call.channel("burst", call.device.answer_burst)
    return prepared_model_pb2.ConfigureExecutionBurstResponse(
        burst=next(call.device.handles), channel_descriptor_id=number
    )


def _launches(request: Any, call: Call) -> prepared_model_pb2.PreparedModelServiceExecuteFencedWithConfigResponse:
    signal, fence = create_fence()
    call.device.signals.append(signal)
    return prepared_model_pb2.PreparedModelServiceExecuteFencedWithConfigResponse(
        result=prepared_model_pb2.FencedExecutionResult(
            callback=next(call.device.handles), sync_fence_descriptor_id=call.offer(fence.descriptor)
        )
    )


HEALTHY: Script = {
    "Device.GetVersionString": device_pb2.GetVersionStringResponse(version=VERSION),
    "Device.GetType": device_pb2.GetTypeResponse(type=types_pb2.DEVICE_TYPE_ACCELERATOR),
    "Device.GetCapabilities": device_pb2.GetCapabilitiesResponse(capabilities=capabilities_to_wire(CAPABILITIES)),
    "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(),
    "Device.GetNumberOfCacheFilesNeeded": device_pb2.GetNumberOfCacheFilesNeededResponse(),
    "Device.GetSupportedOperations": _supports_all,
    "Device.PrepareModelWithConfig": _prepares,
    "Device.PrepareModelFromCache": _prepares,
    "Device.Allocate": _allocates,
    "PreparedModel.ExecuteSynchronouslyWithConfig": (
        prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigResponse(result=SUCCESS)
    ),
    "PreparedModel.ExecuteFencedWithConfig": _launches,
    "PreparedModel.CreateReusableExecution": _creates,
    "PreparedModel.ConfigureExecutionBurst": _configures,
    "PreparedModel.Release": prepared_model_pb2.PreparedModelServiceReleaseResponse(),
    "Execution.ExecuteSynchronously": execution_pb2.ExecutionServiceExecuteSynchronouslyResponse(result=SUCCESS),
    "Execution.Release": execution_pb2.ExecutionServiceReleaseResponse(),
    "Buffer.CopyFrom": buffer_pb2.CopyFromResponse(),
    "Buffer.CopyTo": buffer_pb2.CopyToResponse(),
    "Buffer.Release": buffer_pb2.BufferServiceReleaseResponse(),
}
"""A device that accepts everything, and computes nothing."""


class Serve(Protocol):
    """Serves a script and opens a session with it."""

    def __call__(
        self, script: Script | None = None, on_burst: OnBurst | None = None
    ) -> tuple[RemoteDevice, ScriptedDevice]: ...


@contextmanager
def scripted_process(
    directory: Path, dies_at: str = "", stops_at: str = ""
) -> Iterator[tuple[subprocess.Popen[bytes], Endpoint]]:
    """Run a healthy device as a process, which dies when ``dies_at`` is called, or stops when ``stops_at`` is."""
    endpoint = Endpoint(directory)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(directory), dies_at, stops_at],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with process:
        try:
            assert process.stdout is not None
            # Log lines may precede this one: a client that waited for the device may be served before it is printed.
            assert any(line == b"serving\n" for line in process.stdout)
            yield process, endpoint
        finally:
            process.kill()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send a process SIGKILL, and wait until it has ended."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def _die(request: Any, call: Call) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nothing survives this")


def _stop(request: Any, call: Call) -> NoReturn:
    os.kill(os.getpid(), signal.SIGSTOP)
    call.wait_for_the_end()  # the signal may take effect a moment later


def _launch_and_die(request: Any, call: Call) -> Iterator[Any]:
    yield from preparing(LAUNCHED)
    _die(request, call)


def main() -> None:
    """Serve until standard input ends."""
    directory, dies_at, stops_at = sys.argv[1:]
    script: dict[str, Behaviour] = {}
    if dies_at:
        script[dies_at] = _launch_and_die if dies_at.startswith("Device.Prepare") else _die
    if stops_at:
        script[stops_at] = _stop
    with ScriptedDevice(Endpoint(Path(directory)), script):
        print("serving", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
