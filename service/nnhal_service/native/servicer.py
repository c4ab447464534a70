"""FrameworkService: convert, call, convert."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import grpc

from nnhal.codec import memory_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import DeadObjectError, HalError, NnhalError, invalid_argument
from nnhal.link import channel_pair
from nnhal.rpc import answers
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc, types_pb2
from nnhal_service.frontends import import_model
from nnhal_service.frontends.errors import FrontendError
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.native.channel import serve_binding
from nnhal_service.native.client import Binding, Client, Clients
from nnhal_service.native.convert import (
    binding_from_wire,
    cache_token_from_wire,
    format_from_wire,
    model_to_wire,
    options_from_wire,
    report_to_wire,
)
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import PlacementError
from nnhal_service.runtime import CacheDirectory, Fleet, LoadedModel, prepare

_MAX_MODEL_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""


class FrameworkServicer(framework_pb2_grpc.FrameworkServiceServicer):
    """The native service over gRPC."""

    def __init__(self, fleet: Fleet, clients: Clients, cache_directory: str = "") -> None:
        """``cache_directory`` is where compilations are kept, empty for nowhere."""
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
        content = _read(client.descriptors.get(request.descriptor_id))
        model = self._load(content, request)
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
        return wire.BindResponse(binding=handle, channel_descriptor_id=client.descriptors.offer(theirs))

    @answers
    def Run(self, request: wire.RunRequest, context: grpc.ServicerContext) -> wire.RunResponse:
        """See framework.proto."""
        binding = self._clients.of(context).binding(request.binding)
        try:
            return wire.RunResponse(report=report_to_wire(binding.context.run(request.deadline_ns)))
        except DeadObjectError as error:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error

    @answers
    def Unbind(self, request: wire.UnbindRequest, context: grpc.ServicerContext) -> wire.UnbindResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        client.binding(request.binding).close()
        client.release(request.binding)
        return wire.UnbindResponse()

    def _load(self, content: bytes, request: wire.LoadModelRequest) -> LoadedModel:
        cache = self._cache(content, cache_token_from_wire(request))
        try:
            imported = import_model(content, format_from_wire(request.format))
            try:
                return self._prepare(imported, request, cache)
            except (HalError, PlacementError):
                # What its parts cannot be, a model with operations of the extension may be as a whole.
                if not imported.model.extension_name_to_prefix:
                    raise
                whole = import_model(content, format_from_wire(request.format), as_one=True)
                with suppress(HalError, PlacementError):
                    return self._prepare(whole, request, cache and cache.of_variant("as one"))
                raise
        except (FrontendError, PlacementError, LookupError) as error:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error
        except DeadObjectError as error:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error

    def _cache(self, content: bytes, token: bytes) -> CacheDirectory | None:
        """Where compilations of a model file are kept. The file counts too: clients share the directory, and tokens."""
        if not self._cache_directory or not token:
            return None
        return CacheDirectory(Path(self._cache_directory), token).of_variant(hashlib.sha256(content).hexdigest())

    def _prepare(
        self, imported: ImportedModel, request: wire.LoadModelRequest, cache: CacheDirectory | None
    ) -> LoadedModel:
        return LoadedModel(prepare(imported, self._fleet, request.devices, options_from_wire(request), cache))

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
    try:
        context = model.bind(
            [binding_from_wire(message) for message in request.inputs],
            [binding_from_wire(message) for message in request.outputs],
            [memory_from_wire(message, client.descriptors.get) for message in request.pools],
            request.measure_timing,
        )
    except DeadObjectError as error:
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error
    channel, theirs = channel_pair()
    return Binding(model, context, channel), theirs
