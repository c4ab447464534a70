"""What it costs to pass a value from one device process to another: imported by both, against copied for one of them.

Each pair runs a chain of two cheap operations, the first on the source and the second on the destination, over memory
of two kinds. Imported, the value lies where the framework would place it: in a kind that both use, at a multiple of the
alignment of both. Copied, it lies in ashmem if one of the two does not import that, otherwise at half the common
alignment, so that exactly one of the two hosts stages it.

The cost of an edge is the time of both executions in the driver beyond the computation itself, which the hosts measure.
It includes the staging, but neither sockets nor waking up: those are in the wall times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import permutations
from math import lcm
from time import perf_counter_ns

import numpy as np

from nnhal.errors import general_failure
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool
from nnhal.remote import RemoteBurst, RemoteDevice, RemoteExecution
from nnhal.types import DataLocation, ExecutionConfig, Memory, Model, Request, RequestArgument, TensorHandleFactory
from nnhal.types.layout import byte_size
from nnhal_tools.bench.hal_models import dequantize, image_of, quantize, relu, reshape
from nnhal_tools.up import single_device

DEVICES = {"GPU": "gpu_acc", "NPU": "ethos_n", "CPU": "cpu_acc"}
KIB = 1024
SIZES = (4 * KIB, 64 * KIB, 1024 * KIB, 16 * 1024 * KIB, 64 * 1024 * KIB)
"""Sizes of the value that is passed, bytes."""
_WARM_UP = 3
_FLOAT_BYTES = 4
_MEASURED = ExecutionConfig(measure_timing=True)
_ASHMEM, _BLOB = "ashmem", "hardware_buffer_blob"
_KINDS: Mapping[str, Callable[[int], Memory]] = {_ASHMEM: create_ashmem, _BLOB: create_blob}


@dataclass(frozen=True, slots=True)
class Passing:
    """One way of passing a value; medians, nanoseconds."""

    memory: str
    """The kind of the memory."""
    offset: int
    """The value's offset in it, bytes."""
    staged_bytes: int
    """Bytes that a host copied."""
    staging_ns: float
    """The copying, which is part of ``edge_ns``."""
    edge_ns: float
    """Time of both executions in the driver beyond the computation."""
    wall_ns: float
    """The client's time for both executions."""


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """The cost of passing one value between two devices in both ways."""

    source: str
    """The device that writes the value."""
    destination: str
    """The device that reads it."""
    bytes: int
    """Size of the value."""
    imported: Passing
    """The value is imported by both."""
    copied: Passing
    """The value is copied for one of them."""
    copy_over_import_ns: float
    """The median over the rounds of how much longer the client's time was with the copy."""


@dataclass(frozen=True, slots=True)
class PairReport:
    """One pair of devices over all sizes."""

    source: str
    """The device that writes."""
    destination: str
    """The device that reads."""
    fixed_ns: float
    """The client's time for both executions at the least size: mostly the hops."""
    import_growth: float
    """Factor by which the edge's cost grows from the least size to the largest, imported."""
    copy_growth: float
    """The same factor, copied."""


@dataclass(frozen=True, slots=True)
class FallbackReport:
    """All pairs and sizes."""

    rounds: int
    edges: tuple[EdgeReport, ...]

    @property
    def pairs(self) -> list[PairReport]:
        """Each pair's growth."""
        names = dict.fromkeys((edge.source, edge.destination) for edge in self.edges)
        return [_pair([edge for edge in self.edges if (edge.source, edge.destination) == name]) for name in names]

    def as_dict(self) -> dict[str, object]:
        """The report for JSON."""
        return {**asdict(self), "pairs": [asdict(pair) for pair in self.pairs]}


class _Sample:
    """The times of one way of passing, by round."""

    def __init__(self) -> None:
        self.walls: list[int] = []
        self.edges: list[int] = []
        self.staging: list[int] = []
        self.staged_bytes = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies between two devices."""

    kind: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Half:
    """An execution on one device, and the burst to run it on."""

    burst: RemoteBurst
    execution: RemoteExecution


@dataclass(frozen=True, slots=True)
class _Chain:
    """The two executions with the value in one place, and their times."""

    place: _Place
    halves: tuple[_Half, _Half]
    sample: _Sample

    def run(self) -> None:
        """Run both once and note their times."""
        edge = staging = staged = 0
        started = perf_counter_ns()
        outcomes = [half.burst.run(half.execution) for half in self.halves]
        self.sample.walls.append(perf_counter_ns() - started)
        for outcome in outcomes:
            timing = outcome.result.timing
            edge += timing.time_in_driver_ns - timing.time_on_device_ns
            staging += outcome.staging_ns
            staged += outcome.staged_bytes
        self.sample.edges.append(edge)
        self.sample.staging.append(staging)
        self.sample.staged_bytes = staged

    def passing(self) -> Passing:
        """The medians over the rounds."""
        sample = self.sample
        medians = (float(np.median(values)) for values in (sample.staging, sample.edges, sample.walls))
        return Passing(self.place.kind, self.place.offset, sample.staged_bytes, *medians)


@dataclass(frozen=True, slots=True)
class _Measurement:
    """One pair at one size."""

    source: str
    """The device that writes."""
    destination: str
    """The device that reads."""
    size: int
    """Bytes of the value."""
    imported: _Chain
    """The chain that imports it."""
    copied: _Chain
    """The chain that copies it."""

    def report(self) -> EdgeReport:
        """The result."""
        walls = zip(self.imported.sample.walls, self.copied.sample.walls, strict=True)
        longer = float(np.median([copied - imported for imported, copied in walls]))
        return EdgeReport(
            self.source, self.destination, self.size, self.imported.passing(), self.copied.passing(), longer
        )


def measure_fallback(rounds: int, sizes: Sequence[int], advance: Callable[[], None]) -> FallbackReport:
    """Measure every pair, size and way of passing once in each round. Raises StartError or HalError."""
    with ExitStack() as stack:
        devices = {name: stack.enter_context(single_device(driver, "nnhal-bench")) for name, driver in DEVICES.items()}
        bench = _Bench(devices, max(sizes))
        measurements = [
            bench.measurement(source, destination, size)
            for source, destination in permutations(devices, 2)
            for size in sizes
        ]
        for number in range(_WARM_UP + rounds):
            for measurement in measurements:
                chains = measurement.imported, measurement.copied
                for chain in chains if number % 2 else reversed(chains):  # the first has to wake its devices
                    chain.run()
            if number < _WARM_UP:
                _forget(measurements)
            else:
                advance()
        return FallbackReport(rounds, tuple(measurement.report() for measurement in measurements))


class _Bench:
    """Devices, and memory that all chains share: for inputs, outputs, and the value in each kind."""

    def __init__(self, devices: Mapping[str, RemoteDevice], largest: int) -> None:
        self._devices = devices
        self._factories = {name: _importing(device) for name, device in devices.items()}
        room = largest + lcm(*(factory.alignment for factory in self._factories.values()))
        self._values = {kind: create(room) for kind, create in _KINDS.items()}
        self._before, self._after = (create_blob(_FLOAT_BYTES * largest) for _ in range(2))
        pattern = np.resize(np.linspace(-1, 1, 251, dtype=np.float32), largest).view(np.uint8)
        open_pool(self._before, writable=True).write(0, pattern)

    def measurement(self, source: str, destination: str, size: int) -> _Measurement:
        """A pair at one size, ready to run. Raises GENERAL_FAILURE if the value does not arrive unchanged."""
        first, second = _models(source, destination, size)
        ends = self._devices[source].prepare_model(first), self._devices[destination].prepare_model(second)
        bursts = [prepared.configure_execution_burst() for prepared in ends]

        def chain(place: _Place) -> _Chain:
            value = RequestArgument(DataLocation(0, place.offset, size))
            given = RequestArgument(DataLocation(1, 0, _bytes(first, first.main.input_indexes[0])))
            result = RequestArgument(DataLocation(1, 0, _bytes(second, second.main.output_indexes[0])))
            memory = self._values[place.kind]
            requests = (
                Request((given,), (value,), (memory, self._before)),
                Request((value,), (result,), (memory, self._after)),
            )
            executions = [
                prepared.create_reusable_execution(request, _MEASURED)
                for prepared, request in zip(ends, requests, strict=True)
            ]
            return _Chain(place, (_Half(bursts[0], executions[0]), _Half(bursts[1], executions[1])), _Sample())

        imported, copied = (chain(place) for place in self._places(source, destination))
        results = []
        for each in (imported, copied):
            each.run()
            results.append(self._output(_bytes(second, second.main.output_indexes[0])))
        if results[0] != results[1]:
            general_failure(f"{source} to {destination}, {size} bytes: the copied value is not the imported one")
        return _Measurement(source, destination, size, imported, copied)

    def _places(self, source: str, destination: str) -> tuple[_Place, _Place]:
        """The place from which both import a value, and the one from which one of them copies it."""
        ends = self._factories[source], self._factories[destination]
        common = [kind for kind in _KINDS if kind in ends[0].exports and kind in ends[1].imports]
        if not common:
            general_failure(f"there is no kind of memory that {source} leaves results in and {destination} imports")
        refused = [kind for kind in _KINDS if kind not in common]
        alignment = lcm(*(end.alignment for end in ends))
        copied = _Place(refused[0], 0) if refused else _Place(common[0], alignment // 2)
        return _Place(common[0], 0), copied

    def _output(self, size: int) -> bytes:
        pool = open_pool(self._after, writable=False)
        if not isinstance(pool, MappedPool):
            raise TypeError("a hardware buffer is mapped")
        return pool.view(0, size).tobytes()


def _importing(device: RemoteDevice) -> TensorHandleFactory:
    """The import of the device that the framework would use."""
    return next(factory for factory in device.describe().tensor_handle_factories if factory.imports)


def _models(source: str, destination: str, size: int) -> tuple[Model, Model]:
    """The operations of source and destination. The NPU has no floats, so the GPU beside it converts."""
    if "NPU" not in (source, destination):
        return relu(size // _FLOAT_BYTES), relu(size // _FLOAT_BYTES)
    image = image_of(size)
    first = quantize(image) if source == "GPU" else reshape(image)
    return first, dequantize(image) if destination == "GPU" else reshape(image)


def _bytes(model: Model, operand: int) -> int:
    described = model.main.operands[operand]
    return byte_size(described.type, described.dimensions)


def _forget(measurements: Sequence[_Measurement]) -> None:
    """Forget the times so far: the first runs touch memory for the first time."""
    for measurement in measurements:
        for chain in (measurement.imported, measurement.copied):
            for values in (chain.sample.walls, chain.sample.edges, chain.sample.staging):
                values.clear()


def _pair(edges: Sequence[EdgeReport]) -> PairReport:
    least, largest = min(edges, key=lambda edge: edge.bytes), max(edges, key=lambda edge: edge.bytes)
    return PairReport(
        least.source,
        least.destination,
        least.imported.wall_ns,
        largest.imported.edge_ns / least.imported.edge_ns,
        largest.copied.edge_ns / least.copied.edge_ns,
    )
