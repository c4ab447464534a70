"""Fakes behind the V2 servers, with functions as models, and calls to them over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import grpc
import numpy as np
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.client_memory import Place, to_array
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming
from nnhal_service.serving.requests.signature import TensorDescription
from nnhal_service.v2.backend import (
    IndexEntry,
    LogSetting,
    ModelDescription,
    RepositoryParameter,
    ServerDescription,
    SharedRegion,
)

Run = Callable[[InferenceRequest], Mapping[str, Array]]
M = TypeVar("M", bound=Message)
SERVER = ServerDescription("nnhal", "0.1.0", ("classification", "parameters"))
SERVICE = wire.DESCRIPTOR.services_by_name["GRPCInferenceService"]


def echo(request: InferenceRequest) -> dict[str, Array]:
    """Return every input as an output of the same name."""
    return {name: to_array(tensor) for name, tensor in request.inputs.items()}


@dataclass
class FakeModel:
    """A model that runs a function. It keeps its requests, and counts the responses that were released."""

    run: Run = echo
    name: str = "echo"
    max_batch_size: int = 0
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    inputs: tuple[TensorDescription, ...] = (TensorDescription("x", "FP32", (-1,)),)
    outputs: tuple[TensorDescription, ...] = (TensorDescription("x", "FP32", (-1,)),)
    requests: list[InferenceRequest] = field(default_factory=list)
    released: int = 0

    async def infer(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        running = asyncio.ensure_future(asyncio.to_thread(self._infer, request))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            request.cancellation.cancel()
            await asyncio.wait([running])
            if running.exception() is None:
                running.result().release()
            raise

    def _infer(self, request: InferenceRequest) -> InferenceResponse:
        self.requests.append(request)
        outputs = self.run(request)
        wanted = {name: array for name, array in outputs.items() if not request.outputs or name in request.outputs}
        timing = RequestTiming(0, 0, 0, 0, 0, 0)
        return InferenceResponse(self.name, "1", wanted, self.parameters, timing, self._release)

    def _release(self) -> None:
        self.released += 1


@dataclass
class FakeLease:
    """Holds a model; nothing unloads it."""

    model: FakeModel

    def release(self) -> None:
        """There is nothing to release."""

    def __enter__(self) -> FakeLease:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""


class FakeRepository:
    """Models by name, all of version 1."""

    def __init__(self, *models: FakeModel) -> None:
        self.models = {model.name: model for model in models}
        self.is_up = True
        self.calls: list[tuple[object, ...]] = []

    def ready(self) -> bool:
        return self.is_up

    def is_ready(self, name: str, version: str) -> bool:
        return name in self.models and version in ("", "1")

    def model(self, name: str, version: str) -> FakeLease:
        if not self.is_ready(name, version):
            raise ServingError(ErrorKind.NOT_FOUND, f"Request for unknown model: '{name}' is not found")
        return FakeLease(self.models[name])

    def description(self, name: str, version: str) -> ModelDescription:
        with self.model(name, version) as lease:
            model = lease.model
            return ModelDescription(name, ("1",), "onnx_onnxv1", model.inputs, model.outputs)

    def config(self, name: str, version: str) -> ModelConfig:
        with self.model(name, version) as lease:
            return ModelConfig(name=name, max_batch_size=lease.model.max_batch_size)

    def statistics(self, name: str, version: str) -> list[wire.ModelStatistics]:
        return [wire.ModelStatistics(name=key, version="1") for key in self.models if name in ("", key)]

    def index(self, ready_only: bool) -> list[IndexEntry]:
        rows = [IndexEntry(name, "1", "READY", "") for name in self.models]
        return rows if ready_only else [*rows, IndexEntry("absent", "", "UNAVAILABLE", "not loaded")]

    def known(self, name: str) -> list[IndexEntry]:
        if name in self.models:
            return [IndexEntry(name, "1", "READY", "")]
        return [IndexEntry(name, "", "UNAVAILABLE", "unloaded")] if name == "unloaded" else []

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        self.calls.append(("load", name, dict(parameters)))

    def unload(self, name: str, unload_dependents: bool) -> None:
        self.calls.append(("unload", name, unload_dependents))


class FakeMemory:
    """Regions in this process's own memory."""

    def __init__(self) -> None:
        self.regions: dict[str, tuple[SharedRegion, str, bytearray]] = {}

    def register(self, region: SharedRegion, owner: str) -> None:
        if region.name in self.regions:
            message = f"shared memory region '{region.name}' already in manager"
            raise ServingError(ErrorKind.ALREADY_EXISTS, message)
        if region.byte_size > 2**20:
            raise ServingError(ErrorKind.INVALID_ARGUMENT, "too large")
        self.regions[region.name] = region, owner, bytearray(region.byte_size)

    def unregister(self, name: str, owner: str) -> None:
        for key in [key for key, row in self.regions.items() if name in ("", key) and row[1] == owner]:
            del self.regions[key]

    def status(self, name: str, owner: str) -> list[SharedRegion]:
        return [row[0] for key, row in self.regions.items() if name in ("", key) and row[1] == owner]

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> bytes:
        return bytes(self._part(name, offset, byte_size, owner))

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        self._part(name, offset, len(contents), owner)[:] = contents

    def is_prompt(self, owner: str) -> bool:
        return False

    def place(self, name: str, offset: int, byte_size: int, owner: str) -> Place:
        raise NotImplementedError("regions of this size are copied")

    def _part(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        row = self.regions.get(name)
        if row is None or row[1] != owner:
            message = f"Unable to find system shared memory region: '{name}'"
            raise ServingError(ErrorKind.NOT_FOUND, message)
        if offset + byte_size > len(row[2]):
            message = f"Invalid offset + byte size for shared memory region: '{name}'"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        return memoryview(row[2])[offset : offset + byte_size]


class FakeTrace:
    """Records the calls of ``update``."""

    def __init__(self) -> None:
        self.settings: dict[str, Sequence[str]] = {"trace_level": ("OFF",)}
        self.calls: list[tuple[str, dict[str, Sequence[str]]]] = []

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        self.calls.append((model_name, dict(changes)))
        return self.settings


class FakeLog:
    """Keeps its settings."""

    def __init__(self) -> None:
        self.settings: dict[str, LogSetting] = {"log_info": True, "log_verbose_level": 0, "log_format": "default"}

    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        self.settings.update(changes)
        return self.settings


def call(
    channel: grpc.Channel, name: str, request: Message, metadata: Sequence[tuple[str, str]] = (), timeout: float = 30
) -> Message:
    """Call a method. Raises grpc.RpcError."""
    kind = GetMessageClass(SERVICE.methods_by_name[name].output_type)
    data = request.SerializeToString()
    answer = in_bytes(channel, name)(data, timeout=timeout, metadata=tuple(metadata), wait_for_ready=True)
    return kind.FromString(answer)


def in_bytes(channel: grpc.Channel, name: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return a call that sends and receives the bytes of messages, which may be malformed."""
    return channel.unary_unary(f"/{SERVICE.full_name}/{name}", bytes, bytes)


def streamed_in_bytes(channel: grpc.Channel) -> grpc.StreamStreamMultiCallable[bytes, bytes]:
    """Return the stream call, which sends and receives the bytes of messages."""
    return channel.stream_stream(f"/{SERVICE.full_name}/ModelStreamInfer", bytes, bytes)


def infer(channel: grpc.Channel, request: wire.ModelInferRequest, timeout: float = 30) -> wire.ModelInferResponse:
    """Run a model. Raises grpc.RpcError."""
    return cast(wire.ModelInferResponse, call(channel, "ModelInfer", request, timeout=timeout))


def raw_request(model: str = "echo", **inputs: Array) -> wire.ModelInferRequest:
    request = wire.ModelInferRequest(model_name=model)
    for name, array in inputs.items():
        request.inputs.add(name=name, datatype=datatype_of(array).name, shape=array.shape)
        request.raw_input_contents.append(bytes(raw_from_array(array)))
    return request


def floats(*values: float) -> Array:
    return np.array(values, np.float32)
