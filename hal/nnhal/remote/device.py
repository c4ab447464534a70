"""The proxy of a device's IDevice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.codec import model_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, general_failure, invalid_argument
from nnhal.remote.answers import model_dimensions
from nnhal.remote.backend import (
    DeviceDescription,
    ModelAssessment,
    assessment_from_wire,
    description_from_wire,
    views_from_wire,
)
from nnhal.remote.buffer import RemoteBuffer
from nnhal.remote.calls import Calls
from nnhal.remote.identity import (
    DeviceIdentity,
    checked_cache_files,
    checked_capabilities,
    checked_extensions,
    checked_type,
    checked_version,
)
from nnhal.remote.launcher import RemoteLauncher
from nnhal.remote.preparation import prepared_handle
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.types import (
    CACHE_TOKEN_BYTES,
    NO_DEADLINE,
    BufferRole,
    Capabilities,
    DeviceType,
    ExecutionPreference,
    Extension,
    ExtensionNameAndPrefix,
    Model,
    NetworkEvent,
    NumberOfCacheFiles,
    OptimizationViews,
    Priority,
    TokenValuePair,
)
from nnhal.v1 import (
    backend_pb2,
    backend_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    types_pb2,
)


@dataclass(frozen=True, slots=True)
class CompilationCache:
    """An entry of a compilation cache: as many open files as the device needs, and the 32 bytes that name the entry."""

    model: tuple[Descriptor, ...] = ()
    data: tuple[Descriptor, ...] = ()
    token: bytes = bytes(CACHE_TOKEN_BYTES)


NO_CACHE = CompilationCache()


class RemoteDevice(Closing):
    """A device process, and this client's session with it. Safe to use from several threads.

    Every method raises HalError if the device refuses or its answer is invalid (GENERAL_FAILURE), TransportError if it
    cannot be reached or does not answer in time, and DeadObjectError if it is gone.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_name: str = "nnhal",
        patience: float | None = None,
        stall_seconds: float = 0.0,
    ) -> None:
        """Open a session. With ``patience``, in seconds, calls to a device that falls silent fail, and so do those with
        which it makes no progress for ``stall_seconds``, unless it only passes them on (see ``Calls``).
        """
        self._calls = Calls(endpoint, client_name, patience, stall_seconds=stall_seconds)
        self._device = device_pb2_grpc.DeviceServiceStub(self._calls.rpc)
        self._backend = backend_pb2_grpc.BackendServiceStub(self._calls.rpc)
        self._description: DeviceDescription | None = None

    @property
    def endpoint(self) -> Endpoint:
        return self._calls.endpoint

    @property
    def gone(self) -> bool:
        """Return whether the device has ended the session or is dead. A restarted device does not know the session."""
        return self._calls.hung_up

    @property
    def responds(self) -> bool:
        """Return whether the device answers at this moment. Without ``patience`` it counts as answering."""
        return self._calls.responds

    @property
    def is_silent(self) -> bool:
        """Return whether the device did not answer when it was last asked. Asks nothing."""
        return self._calls.is_silent

    @property
    def is_preparing(self) -> bool:
        return self._calls.streams > 0

    def give_up(self) -> None:
        """Treat a device that does not answer, and cannot be ended, as one that has died: it is ``gone``.

        Its prepared models say whether it may still write (``RemotePreparedModel.is_asleep``).
        """
        self._calls.give_up()

    @property
    def is_asleep(self) -> bool:
        """Return whether it was given up and has not continued yet."""
        return self._calls.is_asleep

    @property
    def pid(self) -> int:
        return self._calls.peer_pid

    @property
    def link_bytes(self) -> int:
        """Bytes sent and received over this session's link."""
        return self._calls.link_bytes

    def identity(self, timeout: float | None = None) -> DeviceIdentity:
        """Return everything that is static about it. Each getter may take ``timeout`` seconds.

        Raises GENERAL_FAILURE if the answers violate the contract.
        """
        identity = DeviceIdentity(
            self.version(timeout),
            self.device_type(timeout),
            self.capabilities(timeout),
            self.supported_extensions(timeout),
            self.number_of_cache_files_needed(timeout),
        )
        if self.gone:  # getters need no session, so that another process at this endpoint may have answered
            raise DeadObjectError(f"{self._calls.place}: the session ended while the device was identified")
        return identity

    def version(self, timeout: float | None = None) -> str:
        """Call getVersionString. Raises GENERAL_FAILURE if the version is empty."""
        request = device_pb2.GetVersionStringRequest()
        answer = self._calls.call(self._device.GetVersionString, request, timeout)
        return checked_version(answer.version, f"{self._calls.place}: DeviceService/GetVersionString")

    def device_type(self, timeout: float | None = None) -> DeviceType:
        """Call getType."""
        answer = self._calls.call(self._device.GetType, device_pb2.GetTypeRequest(), timeout)
        return checked_type(answer.type, f"{self._calls.place}: DeviceService/GetType")

    def capabilities(self, timeout: float | None = None) -> Capabilities:
        """Call getCapabilities."""
        request = device_pb2.GetCapabilitiesRequest()
        answer = self._calls.call(self._device.GetCapabilities, request, timeout)
        return checked_capabilities(answer.capabilities, f"{self._calls.place}: DeviceService/GetCapabilities")

    def supported_extensions(self, timeout: float | None = None) -> tuple[Extension, ...]:
        """Call getSupportedExtensions."""
        request = device_pb2.GetSupportedExtensionsRequest()
        answer = self._calls.call(self._device.GetSupportedExtensions, request, timeout)
        return checked_extensions(answer.extensions, f"{self._calls.place}: DeviceService/GetSupportedExtensions")

    def number_of_cache_files_needed(self, timeout: float | None = None) -> NumberOfCacheFiles:
        """Call getNumberOfCacheFilesNeeded."""
        request = device_pb2.GetNumberOfCacheFilesNeededRequest()
        answer = self._calls.call(self._device.GetNumberOfCacheFilesNeeded, request, timeout)
        return checked_cache_files(
            answer.number_of_cache_files, f"{self._calls.place}: DeviceService/GetNumberOfCacheFilesNeeded"
        )

    def supported_operations(self, model: Model) -> list[bool]:
        """Call getSupportedOperations. Raises GENERAL_FAILURE if the answer is for another number of operations."""
        request = device_pb2.GetSupportedOperationsRequest(model=model_to_wire(model, self._calls.issue))
        answers = list(self._calls.call(self._device.GetSupportedOperations, request).supported)
        count = len(model.main.operations)
        if len(answers) != count:
            general_failure(
                f"{self._calls.place}: DeviceService/GetSupportedOperations answered for {len(answers)} operations, "
                f"expected {count}"
            )
        return answers

    def assess_model(self, model: Model, graphs: bytes | None = None) -> ModelAssessment:
        """Return the answers of getSupportedOperations with reasons and modelled costs. Raises the same errors.

        ``graphs`` is what ``graphs_to_wire`` gave for the model, if several devices are asked about it.
        """
        request = backend_pb2.AssessModelRequest(model=model_to_wire(model, self._calls.issue, graphs))
        answer = self._calls.call(self._backend.AssessModel, request)
        return assessment_from_wire(answer, len(model.main.operations), self._calls.place)

    def describe(self, timeout: float | None = None) -> DeviceDescription:
        """Return the description of the device beyond the HAL. It is asked for once, since it stays the same.

        Raises MissingMethodError if the device has none, or refuses to say it, and GENERAL_FAILURE if it violates the
        rules.
        """
        if self._description is None or self.gone:
            try:
                answer = self._calls.call(self._backend.Describe, backend_pb2.DescribeRequest(), timeout)
            except HalError as error:
                raise MissingMethodError(f"{self._calls.place}: BackendService/Describe: {error}") from error
            self._description = description_from_wire(answer, self._calls.place)
            if self._description.transfer_costs.is_wire:
                self._calls.may_stall()
        return self._description

    def optimize_subgraph(self, model: Model) -> OptimizationViews:
        """Return the device's optimised form of a model; the device supports every operation of it."""
        request = backend_pb2.OptimizeSubgraphRequest(model=model_to_wire(model, self._calls.issue))
        answer = self._calls.call(self._backend.OptimizeSubgraph, request)
        return views_from_wire(answer, len(model.main.operations), self._calls.place)

    def notify_network(self, network: int, event: NetworkEvent) -> None:
        request = backend_pb2.NotifyNetworkRequest(network=network, event=backend_pb2.NetworkEvent.ValueType(event))
        self._calls.call(self._backend.NotifyNetwork, request)

    def usage(self, timeout: float | None = None) -> backend_pb2.GetUsageResponse:
        """Return what the process holds at this moment. The answer may take ``timeout`` seconds."""
        return self._calls.call(self._backend.GetUsage, backend_pb2.GetUsageRequest(), timeout)

    def prepare_model(
        self,
        model: Model,
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Sequence[TokenValuePair] = (),
        extension_names: Sequence[ExtensionNameAndPrefix] = (),
        cache: CompilationCache = NO_CACHE,
        unasked: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> RemotePreparedModel:
        """Call prepareModelWithConfig and wait for the notification. The compilation is written to ``cache``.

        ``unasked`` says that the device has not been asked what it supports, as one that ``takes_files`` need not be.
        ``meanwhile`` is done while the device prepares the model, which is released if that raises an NnhalError.
        Raises DeadObjectError if the device dies meanwhile.
        """
        request = device_pb2.PrepareModelWithConfigRequest(
            model=model_to_wire(model, self._calls.issue),
            config=device_pb2.PrepareModelConfig(
                preference=types_pb2.ExecutionPreference.ValueType(preference),
                priority=types_pb2.Priority.ValueType(priority),
                deadline_ns=deadline_ns,
                model_cache=self._files(cache.model),
                data_cache=self._files(cache.data),
                cache_token=cache.token,
                compilation_hints=hints_to_wire(hints),
                extension_name_to_prefix=extension_names_to_wire(extension_names),
                unasked=unasked,
            ),
        )
        failures: list[NnhalError] = []

        def attempted() -> None:
            try:
                meanwhile()
            except NnhalError as error:
                failures.append(error)

        events = self._calls.stream(self._device.PrepareModelWithConfig, request, attempted)
        try:
            handle = prepared_handle(events, self._calls.place)
        except NnhalError:
            if failures:
                raise failures[0] from None
            raise
        prepared = RemotePreparedModel(self._calls, handle, model_dimensions(model))
        if failures:  # a call that is cancelled may leave a model that nobody knows of
            prepared.release()
            raise failures[0]
        return prepared

    def prepare_model_from_cache(self, cache: CompilationCache, deadline_ns: int = NO_DEADLINE) -> RemotePreparedModel:
        """Call prepareModelFromCache and wait for the notification. Raises the same errors as ``prepare_model``."""
        request = device_pb2.PrepareModelFromCacheRequest(
            deadline_ns=deadline_ns,
            model_cache=self._files(cache.model),
            data_cache=self._files(cache.data),
            token=cache.token,
        )
        events = self._calls.stream(self._device.PrepareModelFromCache, request)
        return RemotePreparedModel(self._calls, prepared_handle(events, self._calls.place))

    def allocate(
        self,
        prepared_models: Sequence[RemotePreparedModel],
        input_roles: Sequence[BufferRole] = (),
        output_roles: Sequence[BufferRole] = (),
        dimensions: Sequence[int] = (),
        largest: Sequence[int] = (),
    ) -> RemoteBuffer:
        """Allocate a buffer that the device owns, for these roles only. Values grow up to ``largest``, if given."""
        request = device_pb2.AllocateRequest(
            desc=device_pb2.BufferDesc(dimensions=dimensions),
            prepared_models=[self._own(prepared, index) for index, prepared in enumerate(prepared_models)],
            input_roles=_roles(input_roles),
            output_roles=_roles(output_roles),
            largest_dimensions=largest,
        )
        answer = self._calls.call(self._device.Allocate, request)
        return RemoteBuffer(self._calls, answer.buffer, answer.token)

    def open_launcher(self) -> RemoteLauncher:
        """Open a channel for launching this session's reusable executions."""
        stub = execution_pb2_grpc.ExecutionServiceStub(self._calls.rpc)
        answer = self._calls.call(stub.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest())
        return RemoteLauncher(self._calls, self._calls.take_channel(answer.channel_descriptor_id))

    def _files(self, files: Sequence[Descriptor]) -> list[device_pb2.CacheFile]:
        return [device_pb2.CacheFile(descriptor_id=self._calls.issue(file)) for file in files]

    def _own(self, prepared: RemotePreparedModel, index: int) -> int:
        """Return the handle of a prepared model of this session. In another session it names something else."""
        if prepared.calls is not self._calls:
            if self.gone or prepared.gone:
                raise DeadObjectError(f"{self._calls.place}: the session of prepared model {index} has ended")
            invalid_argument(
                f"prepared model {index} belongs to another session of the device, expected one of this session"
            )
        return prepared.handle

    def close(self) -> None:
        """End the session, which releases everything that it owns on the device."""
        self._calls.close()


def _roles(roles: Sequence[BufferRole]) -> list[device_pb2.BufferRole]:
    return [
        device_pb2.BufferRole(model_index=role.model_index, io_index=role.io_index, probability=role.probability)
        for role in roles
    ]
