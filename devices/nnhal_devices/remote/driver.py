"""The driver of a device on another host."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.extensions import element_sizes
from nnhal.remote.backend import description_from_wire
from nnhal.remote.identity import checked_capabilities, checked_extensions, checked_type, checked_version
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import NO_DEADLINE, NetworkEvent, NumberOfCacheFiles, OperationType, TensorHandleFactory, TransferCosts
from nnhal.v1 import backend_pb2, types_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.backend import Backend, DeviceFigure, MemoryRules, OperationLimit
from nnhal_devices.driver import DriverOptions, PrepareOptions, Workload
from nnhal_devices.remote.clock_offset import ClockOffset
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.kept_memory import KeptMemory
from nnhal_devices.remote.options import RemoteOptions
from nnhal_devices.remote.packing import ModelPacker
from nnhal_devices.remote.questions import Questions, ask
from nnhal_devices.remote.releases import Releases, RunsUnderWay, Upkeep
from nnhal_devices.remote.run import WireParts
from nnhal_devices.remote.workload import RemoteWorkload, ShownRemoteWorkload
from nnhal_devices.wire import CHUNK_BYTES


@final
class Remote:
    """A device on another host. It is what that device says of itself, and does what that device does."""

    memory = MemoryRules()
    number_of_cache_files = NumberOfCacheFiles()

    def __init__(self, options: DriverOptions) -> None:
        """Connect and measure the connection.

        Raises ValueError for wrong options, OSError if the device cannot be reached or refuses.
        """
        own = RemoteOptions.of(options)
        connection = self._connection = WireConnection(own)
        offset = ClockOffset()
        try:
            self._describe(connection, own)
            self.measures = measure(connection, offset)
        except HalError as error:
            connection.close()
            raise OSError(f"{own.place} cannot be used: {error}") from error
        self._releases, runs = Releases(connection), RunsUnderWay(connection)
        kept = KeptMemory(connection, self._releases)
        self._parts = WireParts(connection, self._releases, runs, kept, offset)
        self._upkeep = Upkeep(self._releases, runs)
        self._packer = ModelPacker()
        self._questions = Questions(connection, self._packer)
        atexit.register(self.close)
        device = connection.device
        self.backend = Backend(
            self._questions.operation_ns,
            self.measures.costs(self._description.transfer_costs.hop_ns),
            self._questions.optimize,
            (TensorHandleFactory(f"{own.place}/kept", keeps=True),),
            context=ForwardedContext(connection),
            realisation=f"{self._description.realisation}, at {own.place}",
            operation_limits=self._operation_limits,
            figures=self._figures,
            temperature=self._temperature if device.has_temperature else None,
            memory=kept,
            together=self._questions.together,
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        """Ask the device, which is sent the constants that it has not had. Raises HalError."""
        return self._questions.support(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Have the device prepare the model. Raises HalError."""
        connection, packed = self._connection, self._packer.pack(model)

        def question() -> wire.PrepareResponse:
            options.check()
            request = wire.PrepareRequest(
                model=packed.message,
                preference=types_pb2.ExecutionPreference.ValueType(options.preference),
                priority=types_pb2.Priority.ValueType(options.priority),
                remaining_ns=-1 if options.deadline_ns == NO_DEADLINE else max(options.deadline_ns - now_ns(), 0),
            )
            return connection.call(connection.stub.Prepare, request)

        answer = ask(connection, packed, question)
        kind = ShownRemoteWorkload if answer.has_figures else RemoteWorkload
        return kind(model, answer.prepared_model, element_sizes(model.model, self.extensions), self._parts)

    def close(self) -> None:
        """End the session, which is no loss of the connection then. Called at the end of the process."""
        self._upkeep.close()
        self._connection.close()

    def _describe(self, connection: WireConnection, options: RemoteOptions) -> None:
        """Take over what the device says of itself. Raises GENERAL_FAILURE if that violates the contract."""
        device, place = connection.device, connection.place
        self._description = description_from_wire(device.description, place)
        self.name = f"{self._description.name}@{options.address.address}"
        self.version = checked_version(device.version, place)
        self.type = checked_type(device.type, place)
        self.capabilities = checked_capabilities(device.capabilities, place)
        self.extensions = checked_extensions(device.extensions, place)
        self.modelled_timing = self._description.modelled_timing

    def _operation_limits(self) -> Sequence[OperationLimit]:
        return [
            OperationLimit(OperationType[limit.operation], limit.conditions)
            for limit in self._connection.device.operation_limits
            if limit.operation in OperationType.__members__
        ]

    def _figures(self) -> Sequence[DeviceFigure]:
        measured = self.measures
        return (
            DeviceFigure("round trip of the wire", measured.round_trip_ns / 1000, "µs"),
            DeviceFigure("bandwidth of the wire", 1000 / measured.ns_per_byte, "MB/s"),
            *(DeviceFigure(figure.name, figure.value, figure.unit) for figure in self._ask().figures),
        )

    def _temperature(self) -> float:
        return self._ask().temperature

    def _ask(self) -> wire.GetDeviceFiguresResponse:
        stub = self._connection.stub
        return self._connection.call(stub.GetDeviceFigures, wire.GetDeviceFiguresRequest())


_PROBES = 10
_LARGE_PROBES = 4
_LEAST_NS_PER_BYTE = 1e-3


@dataclass(frozen=True, slots=True)
class WireMeasures:
    """Measurements of the driver as it connected."""

    round_trip_ns: int
    """The shortest time of a call without bytes."""
    ns_per_byte: float
    """How much longer a call takes for each byte, in the slower direction."""

    def costs(self, launch_ns: float) -> TransferCosts:
        """The costs of runs. ``launch_ns`` is what a run costs on the device's own host."""
        hop_ns = self.round_trip_ns + launch_ns
        return TransferCosts(hop_ns, 0.0, 0.0, self.ns_per_byte, True, self.round_trip_ns)


def measure(connection: WireConnection, offset: ClockOffset) -> WireMeasures:
    """Measure, which takes some dozen round trips and megabytes, and tell ``offset`` of the clocks. Raises HalError."""
    empty = min(_probe(connection, offset) for _ in range(_PROBES))
    sent = min(_probe(connection, offset, sent=CHUNK_BYTES) for _ in range(_LARGE_PROBES))
    received = min(_probe(connection, offset, received=CHUNK_BYTES) for _ in range(_LARGE_PROBES))
    per_byte = (max(sent, received) - empty) / CHUNK_BYTES
    return WireMeasures(empty, max(per_byte, _LEAST_NS_PER_BYTE))


def _probe(connection: WireConnection, offset: ClockOffset, sent: int = 0, received: int = 0) -> int:
    request = wire.ProbeRequest(payload=bytes(sent), answer_bytes=received)
    began = now_ns()
    answer = connection.call(connection.stub.Probe, request)
    ended = now_ns()
    offset.add(began, answer.received_ns, answer.sent_ns, ended)
    return ended - began


class ForwardedContext:
    """The BackendContext of the device. Its methods raise HalError."""

    def __init__(self, connection: WireConnection) -> None:
        self._connection = connection

    def before_load_network(self, network: int) -> None:
        """Tell the device that a network is about to be loaded."""
        self._notify(network, NetworkEvent.BEFORE_LOAD)

    def after_load_network(self, network: int) -> None:
        """Tell the device that it has been loaded, or that loading it has failed."""
        self._notify(network, NetworkEvent.AFTER_LOAD)

    def before_unload_network(self, network: int) -> None:
        """Tell the device that it is about to be unloaded."""
        self._notify(network, NetworkEvent.BEFORE_UNLOAD)

    def after_unload_network(self, network: int) -> None:
        """Tell the device that it has been unloaded."""
        self._notify(network, NetworkEvent.AFTER_UNLOAD)

    def _notify(self, network: int, event: NetworkEvent) -> None:
        request = wire.NotifyRequest(network=network, event=backend_pb2.NetworkEvent.ValueType(event))
        self._connection.call(self._connection.stub.Notify, request)
