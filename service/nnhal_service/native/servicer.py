"""FrameworkService: convert, call, convert."""

from __future__ import annotations

import os
from pathlib import Path

import grpc

from nnhal.codec import extensions_to_wire, memory_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError, TransportError, invalid_argument
from nnhal.link import channel_pair
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc, types_pb2
from nnhal_hosting.rpc import answers
from nnhal_service.frontends.errors import FrontendError
from nnhal_service.native.channel import serve_binding
from nnhal_service.native.client import Binding, Client, Clients
from nnhal_service.native.convert import (
    cache_token_from_wire,
    format_from_wire,
    hints_of,
    model_to_wire,
    options_from_wire,
    report_to_wire,
)
from nnhal_service.native.direct import MAX_DIRECT_BURSTS, lend
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.hal_model import content_of, hal_model_from_wire, import_hal_model
from nnhal_service.native.launches import LaunchServicer
from nnhal_service.native.memory import MemoryServicer, bindings_from_wire, keeping
from nnhal_service.native.models import ModelServicer, ServedModels
from nnhal_service.native.support import SupportServicer
from nnhal_service.partition import PlacementError
from nnhal_service.runtime import CacheDirectory, Fleet, LoadedModel, load_model, prepare
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.runtime.run.reports import RunWatcher

_FEATURE_LEVEL = 8
"""Of every device: the contract has this level only."""
_MAX_MODEL_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""


class FrameworkServicer(
    SupportServicer, LaunchServicer, MemoryServicer, ModelServicer, framework_pb2_grpc.FrameworkServiceServicer
):
    """The native service over gRPC."""

    def __init__(
        self,
        fleet: Fleet,
        clients: Clients,
        cache_directory: str = "",
        models: ServedModels | None = None,
        direct_bursts: int = MAX_DIRECT_BURSTS,
        watcher: RunWatcher | None = None,
    ) -> None:
        """``cache_directory`` is where compilations are kept, empty for nowhere. ``models`` are those of the
        repository, where there is one. One client may have ``direct_bursts`` to devices at a time. The
        ``watcher`` is told of runs of models that clients load.
        """
        self._models = models
        self._direct_bursts = direct_bursts
        self._watcher = watcher
        self._fleet = fleet
        self._clients = clients
        self._cache_directory = cache_directory

    @answers
    def ListDevices(self, request: wire.ListDevicesRequest, context: grpc.ServicerContext) -> wire.ListDevicesResponse:
        """See framework.proto."""
        return wire.ListDevicesResponse(devices=[self._device(name) for name in self._fleet.names])

    @answers
    def LoadModel(self, request: wire.LoadModelRequest, context: grpc.ServicerContext) -> wire.LoadModelResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        if not request.name:
            invalid_argument("a model needs a name")
        if request.HasField("model"):
            model = self._load_hal_model(client, request)
        else:
            model = self._load(_read(client.descriptors.get(request.descriptor_id)), request)
        if self._watcher is not None:
            model.watch(self._watcher)
        client.add_model(request.name, model)
        return wire.LoadModelResponse(model=model_to_wire(request.name, model.prepared))

    @answers
    def GetModel(self, request: wire.GetModelRequest, context: grpc.ServicerContext) -> wire.GetModelResponse:
        """See framework.proto."""
        model = self._clients.of(context).model(request.name)
        return wire.GetModelResponse(model=model_to_wire(request.name, model.prepared))

    @answers
    def ExplainModel(
        self, request: wire.ExplainModelRequest, context: grpc.ServicerContext
    ) -> wire.ExplainModelResponse:
        """See framework.proto."""
        model = self._clients.of(context).model(request.name)
        return wire.ExplainModelResponse(explanation=explanation_to_wire(model.prepared))

    @answers
    def UnloadModel(self, request: wire.UnloadModelRequest, context: grpc.ServicerContext) -> wire.UnloadModelResponse:
        """See framework.proto."""
        self._clients.of(context).remove_model(request.name).close()
        return wire.UnloadModelResponse()

    @answers
    def Bind(self, request: wire.BindRequest, context: grpc.ServicerContext) -> wire.BindResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        binding, theirs = _bind(client, request)
        handle = client.add(binding)
        serve_binding(binding.context, client, binding.channel)
        direct = lend(client, binding, self._direct_bursts) if request.direct else None
        number = client.descriptors.offer(theirs)
        return wire.BindResponse(binding=handle, channel_descriptor_id=number, direct=direct)

    @answers
    def Run(self, request: wire.RunRequest, context: grpc.ServicerContext) -> wire.RunResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        binding = client.binding(request.binding)
        client.admit_run()
        try:
            report = run_by_deadline(binding.context.run, request.deadline_ns)
            return wire.RunResponse(report=report_to_wire(report))
        except TransportError as error:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error

    @answers
    def Unbind(self, request: wire.UnbindRequest, context: grpc.ServicerContext) -> wire.UnbindResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        client.binding(request.binding).close()
        client.release(request.binding)
        return wire.UnbindResponse()

    def _load(self, content: bytes, request: wire.LoadModelRequest) -> LoadedModel:
        cache = self._cache(cache_token_from_wire(request))
        try:
            return load_model(
                content,
                self._fleet,
                request.devices,
                options_from_wire(request),
                format_from_wire(request.format),
                cache,
            )
        except (FrontendError, PlacementError, LookupError) as error:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error
        except TransportError as error:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error

    def _load_hal_model(self, client: Client, request: wire.LoadModelRequest) -> LoadedModel:
        if request.descriptor_id:
            invalid_argument("got a model and a file, expected one of them")
        given = hal_model_from_wire(request.model, client.descriptors.get)
        cache = self._cache(cache_token_from_wire(request))
        cache = cache and cache.of_content(content_of(request.model, given))
        options = options_from_wire(request)
        try:
            return LoadedModel(prepare(import_hal_model(given), self._fleet, request.devices, options, cache))
        except (PlacementError, LookupError) as error:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error
        except TransportError as error:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error

    def _cache(self, token: bytes) -> CacheDirectory | None:
        """Where compilations are kept; clients share the directory, and tokens."""
        return CacheDirectory(Path(self._cache_directory), token) if self._cache_directory and token else None

    def _device(self, name: str) -> wire.DeviceInfo:
        try:
            member = self._fleet.get(name)
        except NnhalError:
            return wire.DeviceInfo(name=name)
        return wire.DeviceInfo(
            name=name,
            version=member.version,
            type=types_pb2.DeviceType.ValueType(member.type),
            pid=member.remote.pid,
            available=True,
            feature_level=_FEATURE_LEVEL,
            extensions=extensions_to_wire(member.extensions),
        )


def _read(descriptor: Descriptor) -> bytes:
    """A model file that a client has handed over. Raises INVALID_ARGUMENT."""
    try:
        size = os.fstat(descriptor.fileno()).st_size
        if not 0 < size <= _MAX_MODEL_BYTES:
            invalid_argument(f"a model file of {size} bytes, expected 1 to {_MAX_MODEL_BYTES}")
        return os.pread(descriptor.fileno(), size, 0)
    except OSError as error:
        invalid_argument(f"the model file cannot be read: {error.strerror}")


def _bind(client: Client, request: wire.BindRequest) -> tuple[Binding, Descriptor]:
    model = client.model(request.model)
    inputs = bindings_from_wire(client, model, request.inputs, is_output=False)
    outputs = bindings_from_wire(client, model, request.outputs, is_output=True)
    try:
        context = model.bind(
            inputs,
            outputs,
            [memory_from_wire(message, client.descriptors.get) for message in request.pools],
            request.measure_timing,
            request.loop_timeout_duration_ns if request.HasField("loop_timeout_duration_ns") else -1,
            hints_of(request),
        )
    except TransportError as error:
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error
    channel, theirs = channel_pair()
    binding = Binding(model, context, channel, client.memories)
    return keeping(binding, client, (*inputs, *outputs)), theirs
