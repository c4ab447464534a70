"""inference.GRPCInferenceService: all of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.native import NATIVE_DIRECTORY, is_on_this_host
from nnhal_hosting.access import AccessRole
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.requests.signature import TensorDescription
from nnhal_service.v2.backend import (
    LogSetting,
    LogSettings,
    ModelRepository,
    RepositoryParameter,
    ServerDescription,
    SharedMemory,
    SharedRegion,
    TraceSettings,
)
from nnhal_service.v2.grpc.calls import GrpcContext
from nnhal_service.v2.grpc.infer import InferCalls, Owner, peer
from nnhal_service.v2.requested import enabled, refuse

SERVICE = wire.DESCRIPTOR.services_by_name["GRPCInferenceService"]
TensorMetadata = wire.ModelMetadataResponse.TensorMetadata
_LOAD_PARAMETERS = {"config": "string_param", "file:": "bytes_param"}


class InferenceServicer:
    """Its methods have the names of the protocol's calls; ``infer_calls`` has the two that run models.

    Coroutines are served in the loop. The other methods may wait, and are called in threads; they take the request and
    the ``owner`` of the caller's regions. All raise ServingError, which ``handlers`` turns into a status.
    """

    def __init__(
        self,
        server: ServerDescription,
        repository: ModelRepository,
        trace: TraceSettings,
        log: LogSettings,
        memory: SharedMemory | None = None,
        owner: Owner = peer,
        native_directory: str = "",
        budget: RequestMemoryBudget | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Without ``memory``, clients cannot register shared memory. ``native_directory`` is the native service's; it
        is told only to clients on this host that may infer, as ``guard`` says. ``budget`` limits the memory of
        messages, None for no limit.
        """
        self._guard = guard or Guard()
        self._native_directory = native_directory
        self._server = server
        self._repository = repository
        self._trace = trace
        self._log = log
        self._memory = memory
        self.owner = owner
        self.budget = budget or RequestMemoryBudget()

    def infer_calls(self, loop: ServingLoop) -> InferCalls:
        """The two calls that run models, which are served in a loop."""
        return InferCalls(self._repository, self._memory, self.owner, self.budget, loop, self._guard)

    async def ServerLive(self, request: wire.ServerLiveRequest, context: GrpcContext) -> wire.ServerLiveResponse:
        return wire.ServerLiveResponse(live=True)

    async def ServerReady(self, request: wire.ServerReadyRequest, context: GrpcContext) -> wire.ServerReadyResponse:
        return wire.ServerReadyResponse(ready=self._repository.ready())

    async def ModelReady(self, request: wire.ModelReadyRequest, context: GrpcContext) -> wire.ModelReadyResponse:
        return wire.ModelReadyResponse(ready=self._repository.is_ready(request.name, request.version))

    async def ServerMetadata(
        self, request: wire.ServerMetadataRequest, context: GrpcContext
    ) -> wire.ServerMetadataResponse:
        server = self._server
        is_near = self._native_directory and is_on_this_host(context.peer.name, context.head.metadata)
        if is_near and self._guard.allows(AccessRole.INFER, context.head.authorization):
            context.set_trailing_metadata(((NATIVE_DIRECTORY, self._native_directory),))
        return wire.ServerMetadataResponse(name=server.name, version=server.version, extensions=server.extensions)

    def ModelMetadata(self, request: wire.ModelMetadataRequest, owner: str) -> wire.ModelMetadataResponse:
        model = self._repository.description(request.name, request.version)
        return wire.ModelMetadataResponse(
            name=model.name,
            versions=model.versions,
            platform=model.platform,
            inputs=_tensors(model.inputs),
            outputs=_tensors(model.outputs),
        )

    def ModelConfig(self, request: wire.ModelConfigRequest, owner: str) -> wire.ModelConfigResponse:
        return wire.ModelConfigResponse(config=self._repository.config(request.name, request.version))

    def ModelStatistics(self, request: wire.ModelStatisticsRequest, owner: str) -> wire.ModelStatisticsResponse:
        statistics = self._repository.statistics(request.name, request.version)
        return wire.ModelStatisticsResponse(model_stats=statistics)

    def RepositoryIndex(self, request: wire.RepositoryIndexRequest, owner: str) -> wire.RepositoryIndexResponse:
        _require_no_repository(request.repository_name)
        entry = wire.RepositoryIndexResponse.ModelIndex
        return wire.RepositoryIndexResponse(
            models=[
                entry(name=model.name, version=model.version, state=model.state, reason=model.reason)
                for model in self._repository.index(request.ready)
            ]
        )

    def RepositoryModelLoad(
        self, request: wire.RepositoryModelLoadRequest, owner: str
    ) -> wire.RepositoryModelLoadResponse:
        _require_no_repository(request.repository_name)
        self._repository.load(
            request.model_name, {key: _load_parameter(key, value) for key, value in request.parameters.items()}
        )
        return wire.RepositoryModelLoadResponse()

    def RepositoryModelUnload(
        self, request: wire.RepositoryModelUnloadRequest, owner: str
    ) -> wire.RepositoryModelUnloadResponse:
        _require_no_repository(request.repository_name)
        dependents = False
        for key, value in request.parameters.items():
            if key != "unload_dependents":
                raise refuse(f"parameter '{key}' of unloading is unknown, expected unload_dependents")
            dependents = bool(_parameter(key, value, "bool_param"))
        self._repository.unload(request.model_name, dependents)
        return wire.RepositoryModelUnloadResponse()

    def SystemSharedMemoryStatus(
        self, request: wire.SystemSharedMemoryStatusRequest, owner: str
    ) -> wire.SystemSharedMemoryStatusResponse:
        response = wire.SystemSharedMemoryStatusResponse()
        for region in enabled(self._memory).status(request.name, owner):
            status = response.regions[region.name]
            status.name, status.key = region.name, region.key
            status.offset, status.byte_size = region.offset, region.byte_size
        return response

    def SystemSharedMemoryRegister(
        self, request: wire.SystemSharedMemoryRegisterRequest, owner: str
    ) -> wire.SystemSharedMemoryRegisterResponse:
        region = SharedRegion(request.name, request.key, request.offset, request.byte_size)
        enabled(self._memory).register(region, owner)
        return wire.SystemSharedMemoryRegisterResponse()

    def SystemSharedMemoryUnregister(
        self, request: wire.SystemSharedMemoryUnregisterRequest, owner: str
    ) -> wire.SystemSharedMemoryUnregisterResponse:
        if self._memory is not None:
            self._memory.unregister(request.name, owner)
        return wire.SystemSharedMemoryUnregisterResponse()

    def CudaSharedMemoryStatus(
        self, request: wire.CudaSharedMemoryStatusRequest, owner: str
    ) -> wire.CudaSharedMemoryStatusResponse:
        if request.name:
            message = f"Unable to find cuda shared memory region: '{request.name}'"
            raise ServingError(ErrorKind.NOT_FOUND, message)
        return wire.CudaSharedMemoryStatusResponse()

    def CudaSharedMemoryRegister(
        self, request: wire.CudaSharedMemoryRegisterRequest, owner: str
    ) -> wire.CudaSharedMemoryRegisterResponse:
        message = f"failed to register CUDA shared memory region: '{request.name}', GPUs not supported"
        raise ServingError(ErrorKind.UNSUPPORTED, message)

    def CudaSharedMemoryUnregister(
        self, request: wire.CudaSharedMemoryUnregisterRequest, owner: str
    ) -> wire.CudaSharedMemoryUnregisterResponse:
        # No error: load generators begin by unregistering all regions, whatever the server supports.
        return wire.CudaSharedMemoryUnregisterResponse()

    def TraceSetting(self, request: wire.TraceSettingRequest, owner: str) -> wire.TraceSettingResponse:
        changes = {key: tuple(setting.value) for key, setting in request.settings.items()}
        return _trace_response(self._trace.update(request.model_name, changes))

    def LogSettings(self, request: wire.LogSettingsRequest, owner: str) -> wire.LogSettingsResponse:
        return _log_response(self._log.update(_log_changes(request)))


def _tensors(tensors: Iterable[TensorDescription]) -> list[TensorMetadata]:
    return [TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape) for tensor in tensors]


def _require_no_repository(name: str) -> None:
    if name:
        raise ServingError(ErrorKind.UNSUPPORTED, "'repository_name' specification is not supported")


def _load_parameter(key: str, value: wire.ModelRepositoryParameter) -> RepositoryParameter:
    wanted = next((kind for start, kind in _LOAD_PARAMETERS.items() if key.startswith(start)), None)
    if wanted is None:
        raise refuse(f"parameter '{key}' of loading is unknown, expected config or file:<path>")
    return _parameter(key, value, wanted)


def _parameter(key: str, value: wire.ModelRepositoryParameter, wanted: str) -> RepositoryParameter:
    given = value.WhichOneof("parameter_choice")
    if given != wanted:
        raise refuse(f"invalid value type for '{key}' parameter, expected {wanted}, got {given or 'no value'}")
    found: RepositoryParameter = getattr(value, wanted)
    return found


def _trace_response(settings: Mapping[str, Sequence[str]]) -> wire.TraceSettingResponse:
    value = wire.TraceSettingResponse.SettingValue
    return wire.TraceSettingResponse(settings={key: value(value=values) for key, values in settings.items()})


def _log_changes(request: wire.LogSettingsRequest) -> dict[str, LogSetting]:
    """Raises INVALID_ARGUMENT if a setting has no value."""
    changes = {}
    for key, setting in request.settings.items():
        choice = setting.WhichOneof("parameter_choice")
        if choice is None:
            raise refuse(f"log setting '{key}' has no value")
        changes[key] = cast(LogSetting, getattr(setting, choice))
    return changes


def _log_response(settings: Mapping[str, LogSetting]) -> wire.LogSettingsResponse:
    response = wire.LogSettingsResponse()
    for key, value in settings.items():
        setting = response.settings[key]
        if isinstance(value, bool):
            setting.bool_param = value
        elif isinstance(value, int):
            setting.uint32_param = value
        else:
            setting.string_param = value
    return response
