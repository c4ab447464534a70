"""DeviceService: IDevice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import grpc

from nnhal.codec import capabilities_to_wire, extensions_to_wire, nanoseconds
from nnhal.codec.bounds import MAX_ROLES, at_most
from nnhal.codec.model import extension_names_from_wire
from nnhal.codec.request import hints_from_wire
from nnhal.errors import HalError
from nnhal.types import BufferRole, ErrorStatus
from nnhal.v1 import device_pb2 as wire
from nnhal.v1 import device_pb2_grpc, model_pb2, types_pb2
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.cache import CacheFiles
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import abort, answers, defect

_log = get_logger(__name__)
R = TypeVar("R")


class DeviceServicer(device_pb2_grpc.DeviceServiceServicer):
    """IDevice over gRPC."""

    def __init__(self, device: HostedDevice, clients: ClientSessions) -> None:
        self._device = device
        self._clients = clients

    @answers
    def GetVersionString(
        self, request: wire.GetVersionStringRequest, context: grpc.ServicerContext
    ) -> wire.GetVersionStringResponse:
        return wire.GetVersionStringResponse(version=self._device.driver.version)

    @answers
    def GetType(self, request: wire.GetTypeRequest, context: grpc.ServicerContext) -> wire.GetTypeResponse:
        return wire.GetTypeResponse(type=types_pb2.DeviceType.ValueType(self._device.driver.type))

    @answers
    def GetCapabilities(
        self, request: wire.GetCapabilitiesRequest, context: grpc.ServicerContext
    ) -> wire.GetCapabilitiesResponse:
        return wire.GetCapabilitiesResponse(capabilities=capabilities_to_wire(self._device.driver.capabilities))

    @answers
    def GetSupportedExtensions(
        self, request: wire.GetSupportedExtensionsRequest, context: grpc.ServicerContext
    ) -> wire.GetSupportedExtensionsResponse:
        return wire.GetSupportedExtensionsResponse(extensions=extensions_to_wire(self._device.driver.extensions))

    @answers
    def GetNumberOfCacheFilesNeeded(
        self, request: wire.GetNumberOfCacheFilesNeededRequest, context: grpc.ServicerContext
    ) -> wire.GetNumberOfCacheFilesNeededResponse:
        needed = self._device.driver.number_of_cache_files
        return wire.GetNumberOfCacheFilesNeededResponse(
            number_of_cache_files=types_pb2.NumberOfCacheFiles(
                num_model_cache=needed.num_model_cache, num_data_cache=needed.num_data_cache
            )
        )

    @answers
    def GetSupportedOperations(
        self, request: wire.GetSupportedOperationsRequest, context: grpc.ServicerContext
    ) -> wire.GetSupportedOperationsResponse:
        model = self._clients.of(context).models.receive(request.model)
        return wire.GetSupportedOperationsResponse(supported=self._device.supported_operations(model))

    def PrepareModel(
        self, request: wire.PrepareModelRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelResponse]:

        def arguments(client: ClientSession) -> Preparation:
            files = _usable_files(request.model_cache, request.data_cache, request.token, client)
            return Preparation(request.preference, request.priority, nanoseconds(request, "deadline_ns"), files)

        for event in self._prepare(request.model, arguments, context):
            yield wire.PrepareModelResponse(preparation=event)

    def PrepareModelWithConfig(
        self, request: wire.PrepareModelWithConfigRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelWithConfigResponse]:
        config = request.config

        def arguments(client: ClientSession) -> Preparation:
            return Preparation(
                config.preference,
                config.priority,
                nanoseconds(config, "deadline_ns"),
                _usable_files(config.model_cache, config.data_cache, config.cache_token, client),
                hints_from_wire(config.compilation_hints),
                extension_names_from_wire(config.extension_name_to_prefix),
                config.unasked,
            )

        for event in self._prepare(request.model, arguments, context):
            yield wire.PrepareModelWithConfigResponse(preparation=event)

    def PrepareModelFromCache(
        self, request: wire.PrepareModelFromCacheRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelFromCacheResponse]:

        def launch() -> Callable[[], PreparedModel]:
            client = self._clients.of(context)
            files = _cache_files(request.model_cache, request.data_cache, request.token, client)
            return self._device.launch_from_cache(files, nanoseconds(request, "deadline_ns"), client)

        for event in self._notify(launch, context):
            yield wire.PrepareModelFromCacheResponse(preparation=event)

    @answers
    def Allocate(self, request: wire.AllocateRequest, context: grpc.ServicerContext) -> wire.AllocateResponse:
        client = self._clients.of(context)
        buffer = self._device.allocate(
            tuple(request.desc.dimensions),
            [
                client.prepared_model(handle)
                for handle in at_most(MAX_ROLES, request.prepared_models, "prepared models")
            ],
            _roles(request.input_roles, "input"),
            _roles(request.output_roles, "output"),
            tuple(request.largest_dimensions),
        )
        handle = client.add(buffer)
        return wire.AllocateResponse(buffer=handle, token=handle)

    def _prepare(
        self,
        message: model_pb2.Model,
        arguments: Callable[[ClientSession], Preparation],
        context: grpc.ServicerContext,
    ) -> Iterator[wire.Preparation]:
        def launch() -> Callable[[], PreparedModel]:
            client = self._clients.of(context)
            return self._device.launch(client.models.receive(message), arguments(client), client)

        yield from self._notify(launch, context)

    def _notify(
        self, launch: Callable[[], Callable[[], PreparedModel]], context: grpc.ServicerContext
    ) -> Iterator[wire.Preparation]:
        """Yield the events of one preparation: exactly one is ``notified``, and it is the last."""
        try:
            work = _guarded(launch)
        except HalError as error:
            yield _failed(error)
            abort(context, error)
        yield wire.Preparation(launched=wire.Launched())
        try:
            prepared = _guarded(work)
            if not context.is_active():  # the client would never release it
                return
            handle = self._clients.of(context).add(prepared)
        except HalError as error:
            yield _failed(error)
            return
        yield wire.Preparation(notified=wire.Notified(prepared_model=handle))


def _cache_files(
    model: Iterable[wire.CacheFile], data: Iterable[wire.CacheFile], token: bytes, client: ClientSession
) -> CacheFiles:
    """The files that a call names. Raises INVALID_ARGUMENT if one was not put on the link."""
    get = client.descriptors.get
    return CacheFiles(
        tuple(get(file.descriptor_id) for file in model), tuple(get(file.descriptor_id) for file in data), token
    )


def _usable_files(
    model: Iterable[wire.CacheFile], data: Iterable[wire.CacheFile], token: bytes, client: ClientSession
) -> CacheFiles:
    """The files to save to: none if one is unknown, since no problem with a cache may influence a preparation."""
    try:
        return _cache_files(model, data, token, client)
    except HalError:
        return CacheFiles(token=token)


def _roles(messages: Sequence[wire.BufferRole], what: str) -> list[BufferRole]:
    roles = at_most(MAX_ROLES, messages, f"{what} roles")
    return [BufferRole(role.model_index, role.io_index, role.probability) for role in roles]


def _guarded(work: Callable[[], R]) -> R:
    """Return the result of some work. An unexpected error is logged and becomes a HalError."""
    try:
        return work()
    except HalError:
        raise
    except Exception as error:
        _log.exception("a preparation failed")
        raise defect(error) from error


def _failed(error: HalError) -> wire.Preparation:
    status = ErrorStatus.GENERAL_FAILURE if error.status == ErrorStatus.NONE else error.status
    return wire.Preparation(
        notified=wire.Notified(status=types_pb2.ErrorStatus.ValueType(status), message=error.message)
    )
