"""The Open Inference Protocol V2 over gRPC, with the messages of ``nnhal.inference``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from types import MappingProxyType
from typing import TypeVar

import grpc
from google.protobuf.internal.containers import MessageMap
from google.protobuf.message import Message

from benchmarks.generators import BenchError
from benchmarks.serve.inputs import ServedSignature, TensorSpec, input_data
from benchmarks.serve.shared_tensors import SharedRange, shared_tensors
from benchmarks.serve.target import Target
from benchmarks.serve.transports import Requests
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import raw_from_array

_SERVICE = "/inference.GRPCInferenceService/"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_SECONDS = 60.0
M = TypeVar("M", bound=Message)


class GrpcConnection:
    """Calls to a server."""

    def __init__(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self._url = url
        self._metadata = tuple((name.lower(), value) for name, value in headers.items())
        self._channel = grpc.insecure_channel(url, options=_OPTIONS)

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Make a call. Raises BenchError with the server's message."""
        invoke = self._channel.unary_unary(_SERVICE + method, lambda message: message.SerializeToString(), bytes)
        try:
            return answer.FromString(invoke(request, timeout=_SECONDS, metadata=self._metadata))
        except grpc.RpcError as error:
            raise BenchError(f"{self._url}: {method}: {_words(error)}") from error

    def inference(self) -> Callable[[bytes], bytes]:
        """A function that calls ModelInfer with an encoded message. It raises BenchError."""
        invoke = self._channel.unary_unary(_SERVICE + "ModelInfer", bytes, bytes)
        metadata = self._metadata or None

        def infer(request: bytes) -> bytes:
            try:
                answer: bytes = invoke(request, metadata=metadata)
                return answer
            except grpc.RpcError as error:
                raise BenchError(f"{self._url}: ModelInfer: {_words(error)}") from error

        return infer

    def signature(self, model: str, version: str) -> ServedSignature:
        """The tensors that ModelMetadata reports. Raises BenchError."""
        request = wire.ModelMetadataRequest(name=model, version=version)
        found = self.call("ModelMetadata", request, wire.ModelMetadataResponse)
        return ServedSignature(
            tuple(TensorSpec(t.name, t.datatype, tuple(t.shape)) for t in found.inputs),
            tuple(TensorSpec(t.name, t.datatype, tuple(t.shape)) for t in found.outputs),
        )

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class GrpcRequests(Requests):
    """Calls ModelInfer with raw contents, or with tensors in a region of shared memory."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._connection = GrpcConnection(target.url, target.headers)
        self._region = ""
        try:
            signature = self._connection.signature(target.model, target.version)
            self._request = self._build(signature.of_batch(target.batch, target.shapes))
        except BaseException:
            self.close()
            raise
        self._infer = self._connection.inference()

    def infer(self) -> None:
        started = perf_counter_ns()
        request = self._request.SerializeToString()
        sent = perf_counter_ns()
        answer = self._infer(request)
        answered = perf_counter_ns()
        wire.ModelInferResponse.FromString(answer)
        self.send_ns += sent - started
        self.receive_ns += perf_counter_ns() - answered

    def close(self) -> None:
        try:
            if self._region:
                self._connection.call(
                    "SystemSharedMemoryUnregister",
                    wire.SystemSharedMemoryUnregisterRequest(name=self._region),
                    wire.SystemSharedMemoryUnregisterResponse,
                )
        finally:
            self._connection.close()

    def _build(self, signature: ServedSignature) -> wire.ModelInferRequest:
        target = self.target
        raw = {name: raw_from_array(array) for name, array in input_data(signature, target.data).items()}
        request = wire.ModelInferRequest(model_name=target.model, model_version=target.version)
        for tensor in signature.inputs:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        for tensor in signature.outputs:
            request.outputs.add(name=tensor.name)
        if not target.shared_memory:
            request.raw_input_contents.extend(bytes(raw[tensor.name]) for tensor in signature.inputs)
            return request
        shared = shared_tensors(raw, signature, target.output_bytes)
        try:
            register = wire.SystemSharedMemoryRegisterRequest(
                name=shared.file.key, key=shared.file.key, byte_size=shared.file.size
            )
            self._connection.call("SystemSharedMemoryRegister", register, wire.SystemSharedMemoryRegisterResponse)
        finally:
            shared.file.unlink()
        self._region = shared.file.key
        for given in request.inputs:
            _place(given.parameters, self._region, shared.parts[given.name])
        for wanted in request.outputs:
            _place(wanted.parameters, self._region, shared.parts[wanted.name])
        return request


def _place(parameters: MessageMap[str, wire.InferParameter], region: str, part: SharedRange) -> None:
    parameters["shared_memory_region"].string_param = region
    parameters["shared_memory_byte_size"].int64_param = part.byte_size
    parameters["shared_memory_offset"].int64_param = part.offset


def _words(error: grpc.RpcError) -> str:
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return f"{code().name}: {details()}" if code is not None and details is not None else str(error)
