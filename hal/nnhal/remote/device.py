"""IDevice from afar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from nnhal.codec import capabilities_from_wire, extensions_from_wire, model_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.remote.calls import Calls
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.types import (
    NO_DEADLINE,
    Capabilities,
    DeviceType,
    ErrorStatus,
    ExecutionPreference,
    Extension,
    ExtensionNameAndPrefix,
    Model,
    NumberOfCacheFiles,
    Priority,
    TokenValuePair,
)
from nnhal.v1 import backend_pb2, backend_pb2_grpc, device_pb2, device_pb2_grpc, types_pb2

NO_CACHE_TOKEN = bytes(32)


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """What a device's backend says of it. ``imports`` are names of memory kinds, in lower case."""

    name: str
    imports: frozenset[str]
    alignment: int
    modelled_timing: bool
    workers: int


@dataclass(frozen=True, slots=True)
class OperationSupport:
    """Whether an operation is supported, and if not why: a stable code, what was got, what is allowed, a hint."""

    supported: bool
    code: str = ""
    got: str = ""
    allowed: str = ""
    hint: str = ""


class RemoteDevice:
    """A device process, and this client's session with it. Safe to use from several threads.

    Every method raises HalError where the device refuses, TransportError where it cannot be reached, and
    DeadObjectError where it is gone.
    """

    def __init__(self, endpoint: Endpoint, client_name: str = "nnhal") -> None:
        self._calls = Calls(endpoint, client_name)
        self._device = device_pb2_grpc.DeviceServiceStub(self._calls.rpc)
        self._backend = backend_pb2_grpc.BackendServiceStub(self._calls.rpc)

    @property
    def endpoint(self) -> Endpoint:
        """Where it is."""
        return self._calls.endpoint

    @property
    def gone(self) -> bool:
        """Whether the device has ended the session, or is dead. A device that came back does not know the session."""
        return self._calls.hung_up

    @property
    def pid(self) -> int:
        """The device's process."""
        return self._calls.peer_pid

    @property
    def link_bytes(self) -> int:
        """Bytes that went over this session's link, both ways."""
        return self._calls.link_bytes

    def version(self) -> str:
        """getVersionString."""
        return self._calls.call(self._device.GetVersionString, device_pb2.GetVersionStringRequest()).version

    def device_type(self) -> DeviceType:
        """getType. Raises GENERAL_FAILURE for a type that does not exist."""
        code = self._calls.call(self._device.GetType, device_pb2.GetTypeRequest()).type
        if code not in (kind.value for kind in DeviceType):
            raise HalError(ErrorStatus.GENERAL_FAILURE, f"{self.endpoint.directory} has device type {code}")
        return DeviceType(code)

    def capabilities(self) -> Capabilities:
        """getCapabilities."""
        answer = self._calls.call(self._device.GetCapabilities, device_pb2.GetCapabilitiesRequest())
        return capabilities_from_wire(answer.capabilities)

    def supported_extensions(self) -> tuple[Extension, ...]:
        """getSupportedExtensions."""
        answer = self._calls.call(self._device.GetSupportedExtensions, device_pb2.GetSupportedExtensionsRequest())
        return extensions_from_wire(answer.extensions)

    def number_of_cache_files_needed(self) -> NumberOfCacheFiles:
        """getNumberOfCacheFilesNeeded."""
        request = device_pb2.GetNumberOfCacheFilesNeededRequest()
        counts = self._calls.call(self._device.GetNumberOfCacheFilesNeeded, request).number_of_cache_files
        return NumberOfCacheFiles(counts.num_model_cache, counts.num_data_cache)

    def supported_operations(self, model: Model) -> list[bool]:
        """getSupportedOperations. Raises GENERAL_FAILURE where the device answers for another number of operations."""
        request = device_pb2.GetSupportedOperationsRequest(model=model_to_wire(model, self._calls.issue))
        answers = list(self._calls.call(self._device.GetSupportedOperations, request).supported)
        if len(answers) != len(model.main.operations):
            raise HalError(
                ErrorStatus.GENERAL_FAILURE,
                f"{self.endpoint.directory} answered for {len(answers)} of {len(model.main.operations)} operations",
            )
        return answers

    def explain_support(self, model: Model) -> list[OperationSupport]:
        """getSupportedOperations with reasons."""
        request = backend_pb2.ExplainSupportRequest(model=model_to_wire(model, self._calls.issue))
        answer = self._calls.call(self._backend.ExplainSupport, request)
        return [OperationSupport(o.supported, o.code, o.got, o.allowed, o.hint) for o in answer.operations]

    def describe(self) -> DeviceDescription:
        """What the device is beyond the HAL."""
        answer = self._calls.call(self._backend.Describe, backend_pb2.DescribeRequest())
        imports = frozenset(
            backend_pb2.MemoryKind.Name(kind).removeprefix("MEMORY_KIND_").lower() for kind in answer.imports
        )
        return DeviceDescription(answer.name, imports, answer.alignment, answer.modelled_timing, answer.workers)

    def usage(self) -> backend_pb2.GetUsageResponse:
        """What the process holds at this moment."""
        return self._calls.call(self._backend.GetUsage, backend_pb2.GetUsageRequest())

    def prepare_model(
        self,
        model: Model,
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Sequence[TokenValuePair] = (),
        extension_names: Sequence[ExtensionNameAndPrefix] = (),
    ) -> RemotePreparedModel:
        """prepareModelWithConfig, waited for. Raises DeadObjectError where the device dies meanwhile."""
        request = device_pb2.PrepareModelWithConfigRequest(
            model=model_to_wire(model, self._calls.issue),
            config=device_pb2.PrepareModelConfig(
                preference=types_pb2.ExecutionPreference.ValueType(preference),
                priority=types_pb2.Priority.ValueType(priority),
                deadline_ns=deadline_ns,
                cache_token=NO_CACHE_TOKEN,
                compilation_hints=hints_to_wire(hints),
                extension_name_to_prefix=extension_names_to_wire(extension_names),
            ),
        )
        notified: device_pb2.Notified | None = None
        events: Iterator[device_pb2.PrepareModelWithConfigResponse]
        events = self._calls.stream(self._device.PrepareModelWithConfig, request)
        for event in events:
            if event.preparation.WhichOneof("event") == "notified":
                notified = event.preparation.notified
        if notified is None:
            raise DeadObjectError(f"{self.endpoint.directory} never said how the preparation ended")
        if notified.status:
            raise HalError(ErrorStatus(notified.status), notified.message)
        if notified.prepared_model <= 0:
            raise HalError(ErrorStatus.GENERAL_FAILURE, f"{self.endpoint.directory} prepared a null model")
        return RemotePreparedModel(self._calls, notified.prepared_model)

    def close(self) -> None:
        """End the session: everything that it owns over there is released."""
        self._calls.close()

    def __enter__(self) -> RemoteDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
