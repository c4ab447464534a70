"""DeviceService: IDevice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc
import structlog

from nnhal.codec import capabilities_to_wire, extensions_to_wire, model_from_wire
from nnhal.codec.model import extension_names_from_wire
from nnhal.codec.request import hints_from_wire
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.rpc import abort, answers, defect
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2 as wire
from nnhal.v1 import device_pb2_grpc, model_pb2, types_pb2
from nnhal_devices.host.client import Clients
from nnhal_devices.host.device import CACHE_TOKEN_BYTES, Device, Preparation
from nnhal_devices.host.prepared_model import PreparedModel

_log = structlog.get_logger(__name__)
R = TypeVar("R")


class DeviceServicer(device_pb2_grpc.DeviceServiceServicer):
    """IDevice over gRPC."""

    def __init__(self, device: Device, clients: Clients) -> None:
        self._device = device
        self._clients = clients

    @answers
    def GetVersionString(
        self, request: wire.GetVersionStringRequest, context: grpc.ServicerContext
    ) -> wire.GetVersionStringResponse:
        """See device.proto."""
        return wire.GetVersionStringResponse(version=self._device.driver.version)

    @answers
    def GetType(self, request: wire.GetTypeRequest, context: grpc.ServicerContext) -> wire.GetTypeResponse:
        """See device.proto."""
        return wire.GetTypeResponse(type=types_pb2.DeviceType.ValueType(self._device.driver.type))

    @answers
    def GetCapabilities(
        self, request: wire.GetCapabilitiesRequest, context: grpc.ServicerContext
    ) -> wire.GetCapabilitiesResponse:
        """See device.proto."""
        return wire.GetCapabilitiesResponse(capabilities=capabilities_to_wire(self._device.driver.capabilities))

    @answers
    def GetSupportedExtensions(
        self, request: wire.GetSupportedExtensionsRequest, context: grpc.ServicerContext
    ) -> wire.GetSupportedExtensionsResponse:
        """See device.proto."""
        return wire.GetSupportedExtensionsResponse(extensions=extensions_to_wire(self._device.driver.extensions))

    @answers
    def GetNumberOfCacheFilesNeeded(
        self, request: wire.GetNumberOfCacheFilesNeededRequest, context: grpc.ServicerContext
    ) -> wire.GetNumberOfCacheFilesNeededResponse:
        """See device.proto."""
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
        """See device.proto."""
        model = model_from_wire(request.model, self._clients.of(context).descriptors.get)
        return wire.GetSupportedOperationsResponse(supported=self._device.supported_operations(model))

    def PrepareModel(
        self, request: wire.PrepareModelRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelResponse]:
        """See device.proto."""
        arguments = Preparation(request.preference, request.priority, request.deadline_ns, request.token)
        for event in self._prepare(request.model, arguments, context):
            yield wire.PrepareModelResponse(preparation=event)

    def PrepareModelWithConfig(
        self, request: wire.PrepareModelWithConfigRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelWithConfigResponse]:
        """See device.proto."""
        config = request.config
        arguments = Preparation(
            config.preference,
            config.priority,
            config.deadline_ns,
            config.cache_token,
            hints_from_wire(config.compilation_hints),
            extension_names_from_wire(config.extension_name_to_prefix),
        )
        for event in self._prepare(request.model, arguments, context):
            yield wire.PrepareModelWithConfigResponse(preparation=event)

    def PrepareModelFromCache(
        self, request: wire.PrepareModelFromCacheRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.PrepareModelFromCacheResponse]:
        """See device.proto. No driver caches yet, so every valid call is refused as the contract says."""

        def refuse() -> Callable[[], PreparedModel]:
            self._clients.of(context)
            if request.deadline_ns < -1:
                invalid_argument(f"deadline {request.deadline_ns} ns, expected -1 or more")
            if len(request.token) != CACHE_TOKEN_BYTES:
                invalid_argument(f"a cache token of {len(request.token)} bytes, expected {CACHE_TOKEN_BYTES}")
            general_failure(f"{self._device.driver.name} does no compilation caching")

        for event in self._notify(refuse, context):
            yield wire.PrepareModelFromCacheResponse(preparation=event)

    @answers
    def Allocate(self, request: wire.AllocateRequest, context: grpc.ServicerContext) -> wire.AllocateResponse:
        """See device.proto. No driver has memory of its own yet: the contract's GENERAL_FAILURE."""
        self._clients.of(context)
        general_failure(f"{self._device.driver.name} has no device memory to allocate")

    def _prepare(
        self, message: model_pb2.Model, arguments: Preparation, context: grpc.ServicerContext
    ) -> Iterator[wire.Preparation]:
        def launch() -> Callable[[], PreparedModel]:
            client = self._clients.of(context)
            model = model_from_wire(message, client.descriptors.get)
            return self._device.launch(model, arguments, client)

        yield from self._notify(launch, context)

    def _notify(
        self, launch: Callable[[], Callable[[], PreparedModel]], context: grpc.ServicerContext
    ) -> Iterator[wire.Preparation]:
        """The events of one preparation: exactly one is ``notified``, and it is the last."""
        try:
            work = _guarded(launch)
        except HalError as error:
            yield _failed(error)
            abort(context, error)
        yield wire.Preparation(launched=wire.Launched())
        try:
            prepared = _guarded(work)
            if not context.is_active():  # nobody would ever release it
                return
            handle = self._clients.of(context).add(prepared)
        except HalError as error:
            yield _failed(error)
            return
        yield wire.Preparation(notified=wire.Notified(prepared_model=handle))


def _guarded(work: Callable[[], R]) -> R:
    """The result of some work; what is no HalError is logged and becomes one."""
    try:
        return work()
    except HalError:
        raise
    except Exception as error:
        _log.exception("a preparation failed")
        raise defect() from error


def _failed(error: HalError) -> wire.Preparation:
    status = ErrorStatus.GENERAL_FAILURE if error.status == ErrorStatus.NONE else error.status
    return wire.Preparation(
        notified=wire.Notified(status=types_pb2.ErrorStatus.ValueType(status), message=error.message)
    )
