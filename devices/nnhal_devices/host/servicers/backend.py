"""BackendService: what a device answers the framework beyond the HAL."""

from __future__ import annotations

import grpc

from nnhal.codec import model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import mapped_regions
from nnhal.support import Support, Supported
from nnhal.types import Substitution, TensorHandleFactory
from nnhal.v1 import backend_pb2 as wire
from nnhal.v1 import backend_pb2_grpc, chain_pb2
from nnhal_devices.backend import MemoryKind, tensor_handles_of, untouched
from nnhal_devices.host.channels.stage import Stage
from nnhal_devices.host.channels.wiring import wire_step
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_hosting.rpc import answers

_KINDS: dict[str, wire.MemoryKind.ValueType] = {
    MemoryKind.ASHMEM: wire.MEMORY_KIND_ASHMEM,
    MemoryKind.MMAP_FD: wire.MEMORY_KIND_MMAP_FD,
    MemoryKind.HARDWARE_BUFFER_BLOB: wire.MEMORY_KIND_HARDWARE_BUFFER_BLOB,
}
_UNWIRING_SECONDS = 1.0
"""How long UnwireStep waits for an execution to end; the client asks again, and no thread of the server is held."""


class BackendServicer(backend_pb2_grpc.BackendServiceServicer):
    """BackendService over gRPC."""

    def __init__(self, device: HostedDevice, clients: ClientSessions) -> None:
        self._device = device
        self._clients = clients

    @answers
    def Describe(self, request: wire.DescribeRequest, context: grpc.ServicerContext) -> wire.DescribeResponse:
        driver = self._device.driver
        return wire.DescribeResponse(
            name=driver.name,
            imports=sorted(_KINDS[kind] for kind in driver.memory.imports),
            alignment=driver.memory.alignment,
            modelled_timing=driver.modelled_timing,
            workers=self._device.scheduler.workers,
            tensor_handle_factories=[
                _factory_to_wire(factory) for factory in tensor_handles_of(driver.name, driver.backend, driver.memory)
            ],
            asynchronous=driver.backend.queue is not None,
            transfer_costs=wire.TransferCosts(
                hop_ns=driver.backend.transfer_costs.hop_ns,
                sync_ns=driver.backend.transfer_costs.sync_ns,
                import_ns=driver.backend.transfer_costs.import_ns,
                copy_ns_per_byte=driver.backend.transfer_costs.copy_ns_per_byte,
                is_wire=driver.backend.transfer_costs.is_wire,
                round_trip_ns=driver.backend.transfer_costs.round_trip_ns,
            ),
            realisation=driver.backend.realisation,
            can_be_wired=self._can_be_wired,
            maps_files=self._device.maps_files,
            source_extension=driver.backend.source_extension,
            optimizes_nothing=driver.backend.optimize is untouched,
            ignores_networks=driver.backend.context is None,
            takes_files=driver.backend.takes_files,
            is_reference=driver.backend.is_reference,
        )

    @answers
    def AssessModel(self, request: wire.AssessModelRequest, context: grpc.ServicerContext) -> wire.AssessModelResponse:
        assessment = self._device.assess(self._clients.of(context).models.receive(request.model))
        return wire.AssessModelResponse(
            operations=[_support_to_wire(answer) for answer in assessment.support],
            operation_ns=assessment.operation_ns,
            together=[wire.OperationGroup(operations=group) for group in assessment.together],
        )

    @answers
    def OptimizeSubgraph(
        self, request: wire.OptimizeSubgraphRequest, context: grpc.ServicerContext
    ) -> wire.OptimizeSubgraphResponse:
        views = self._device.optimize(self._clients.of(context).models.receive(request.model))
        return wire.OptimizeSubgraphResponse(
            substitutions=[_substitution_to_wire(each) for each in views.substitutions],
            failed=[wire.FailedSubgraph(operations=f.operations, reason=f.reason) for f in views.failed],
            untouched=views.untouched,
        )

    @answers
    def NotifyNetwork(
        self, request: wire.NotifyNetworkRequest, context: grpc.ServicerContext
    ) -> wire.NotifyNetworkResponse:
        self._clients.of(context).networks.notify(request.network, request.event)
        return wire.NotifyNetworkResponse()

    @answers
    def WireStep(self, request: chain_pb2.WireStepRequest, context: grpc.ServicerContext) -> chain_pb2.WireStepResponse:
        if not self._can_be_wired:
            invalid_argument("the device is asynchronous: its executions cannot be stages of a wired chain")
        return chain_pb2.WireStepResponse(stage=wire_step(self._clients.of(context), request))

    @answers
    def GetStageUsage(
        self, request: chain_pb2.GetStageUsageRequest, context: grpc.ServicerContext
    ) -> chain_pb2.GetStageUsageResponse:
        runs, failed_runs, duration_ns = self._clients.of(context).get(request.stage, Stage, "stage").usage
        return chain_pb2.GetStageUsageResponse(runs=runs, failed_runs=failed_runs, duration_ns=duration_ns)

    @answers
    def UnwireStep(
        self, request: chain_pb2.UnwireStepRequest, context: grpc.ServicerContext
    ) -> chain_pb2.UnwireStepResponse:
        client = self._clients.of(context)
        stage = client.get(request.stage, Stage, "stage")
        stage.end()
        is_idle = stage.wait_until_idle(_UNWIRING_SECONDS)
        if is_idle:
            client.release(request.stage)
        return chain_pb2.UnwireStepResponse(runs=not is_idle)

    @answers
    def GetUsage(self, request: wire.GetUsageRequest, context: grpc.ServicerContext) -> wire.GetUsageResponse:
        clients = self._clients.all()
        mappings, mapped_bytes = mapped_regions()
        return wire.GetUsageResponse(
            sessions=len(clients),
            descriptors=sum(len(client.descriptors) for client in clients),
            mappings=mappings,
            mapped_bytes=mapped_bytes,
            prepared_models=sum(len(client.all(PreparedModel)) for client in clients),
            executions=sum(len(client.all(Execution)) for client in clients),
            bursts=sum(len(client.all(Burst)) for client in clients),
            executions_ended=self._device.scheduler.ended,
            staged_bytes=self._device.counters.staged_bytes,
            buffers=sum(len(client.all(DeviceBuffer)) for client in clients),
            buffer_bytes=self._device.memory.used,
            buffer_copied_bytes=self._device.counters.buffer_copied_bytes,
            launched=sum(len(client.launched) for client in clients),
            stages=sum(len(client.all(Stage)) for client in clients),
            wire_up_bytes=self._device.counters.wire_up_bytes,
            wire_down_bytes=self._device.counters.wire_down_bytes,
            compiled_models=self._device.counters.compiled_models,
            restored_models=self._device.counters.restored_models,
        )

    @property
    def _can_be_wired(self) -> bool:
        """An asynchronous device's results are visible after a sync only, which a ring does not make."""
        return self._device.driver.backend.queue is None


def _factory_to_wire(factory: TensorHandleFactory) -> wire.TensorHandleFactory:
    return wire.TensorHandleFactory(
        id=factory.id,
        imports=sorted(_KINDS[kind] for kind in factory.imports),
        exports=sorted(_KINDS[kind] for kind in factory.exports),
        maps=factory.maps,
        alignment=factory.alignment,
        fallback_import_memory_required=factory.fallback_import_memory_required,
        relaxed_as_float16=factory.relaxed_as_float16,
        keeps=factory.keeps,
    )


def _substitution_to_wire(substitution: Substitution) -> wire.Substitution:
    message = wire.Substitution(
        operations=substitution.operations,
        replacement=substitution.replacement,
        working_bytes=substitution.working_bytes,
    )
    if substitution.subgraph is not None:
        message.subgraph.CopyFrom(model_to_wire(substitution.subgraph, _no_pool))
    return message


def _no_pool(descriptor: Descriptor) -> int:
    general_failure(f"a substitution refers to {descriptor}, expected constants that are copied")


def _support_to_wire(answer: Support) -> wire.OperationSupport:
    if isinstance(answer, Supported):
        return wire.OperationSupport(supported=True)
    return wire.OperationSupport(code=answer.code, got=answer.got, allowed=answer.allowed, hint=answer.hint)
