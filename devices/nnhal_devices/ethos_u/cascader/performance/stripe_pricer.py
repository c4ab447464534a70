"""The price of any stripe of any part of a graph."""

from __future__ import annotations

from math import ceil

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph, PartKind
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.blocks import NpuBlock, choose_block
from nnhal_devices.ethos_u.cascader.performance.npu_cycles import NpuCycles, convolution_cycles, elementwise_cycles
from nnhal_devices.ethos_u.cascader.performance.price import Price, StripePlaces
from nnhal_devices.ethos_u.cascader.performance.traffic import (
    StripeTraffic,
    read_burst,
    stripe_traffic,
    transfer_cycles,
    write_burst,
)
from nnhal_devices.ethos_u.cascader.performance.workload import PartWorkload, TensorLayout, workload_of


class StripePricer:
    """Prices the stripes of a graph's parts on a system, each once.

    Parts that ask the same of the NPU share their prices.
    """

    def __init__(self, graph: CascaderGraph, system: System, layout: TensorLayout = TensorLayout.ROW_MAJOR) -> None:
        self._system = system
        self._accelerator = system.accelerator
        self._layout = layout
        self._workloads = [workload_of(graph, part) for part in graph.parts]
        self._element_bytes = [
            tuple(graph.tensors[each.tensor].element_bytes for each in part.inputs) for part in graph.parts
        ]
        self._blocks: dict[tuple[PartWorkload, Shape], NpuBlock] = {}
        self._prices: dict[tuple[PartWorkload, Shape, tuple[Shape, ...], StripePlaces], Price] = {}

    def price(self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces) -> Price:
        """Return the price of one stripe of a part.

        Args:
            part_index: The part.
            output: The extents of the stripe.
            inputs: The extents of what it reads of each input, without padding.
            places: Where they are.
        """
        key = (self._workloads[part_index], output, inputs, places)
        found = self._prices.get(key)
        if found is None:
            found = self._prices[key] = self._compute(part_index, output, inputs, places)
        return found

    def block(self, part_index: int, output: Shape) -> Shape:
        """Return the block in which the NPU computes a stripe of a part, of which COPY has none: the stripe itself."""
        if self._workloads[part_index].kind is PartKind.COPY:
            return output
        return self._block(self._workloads[part_index], output).output

    def _block(self, workload: PartWorkload, output: Shape) -> NpuBlock:
        key = (workload, output)
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = choose_block(self._accelerator, workload, output)
        return found

    def _compute(self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces) -> Price:
        workload, element_bytes = self._workloads[part_index], self._element_bytes[part_index]
        if workload.kind is PartKind.COPY:
            return self._copied(workload, output, inputs, places, element_bytes)
        block = self._block(workload, output)
        traffic = stripe_traffic(workload, output, inputs, block, element_bytes)
        npu = self._npu_cycles(workload, output, inputs, places, block)
        access = self._access_cycles(workload, traffic, places, block, element_bytes)
        return _price(
            max(npu.steady, *access.values()),
            npu.fill,
            _macs(workload, output, inputs),
            traffic,
            places,
            workload.passes,
        )

    def _npu_cycles(
        self, workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces, block: NpuBlock
    ) -> NpuCycles:
        transfer = self._block_transfer(workload, output, inputs[0], places, block)
        if not workload.has_accumulators:
            return elementwise_cycles(self._accelerator, workload, output, block, transfer)
        latency = self._system.region(places.constants).read_latency if workload.scale_bytes else 0
        return convolution_cycles(self._accelerator, workload, output, inputs[0].channels, block, transfer, latency)

    def _block_transfer(
        self, workload: PartWorkload, output: Shape, needed: Shape, places: StripePlaces, block: NpuBlock
    ) -> float:
        """Cycles to load the first input block and to store an output block."""
        source, destination = self._system.region(places.inputs[0]), self._system.region(places.output)
        loaded = Shape(*map(min, needed, block.input)).elements * workload.input_bytes
        stored = Shape(*map(min, output, block.output)).elements * workload.output_bytes
        return (
            source.read_latency
            + transfer_cycles(source, loaded, self._read_burst(block, workload.input_bytes))
            + destination.write_latency
            + transfer_cycles(destination, stored, self._write_burst(block, workload.output_bytes))
        )

    def _access_cycles(
        self,
        workload: PartWorkload,
        traffic: StripeTraffic,
        places: StripePlaces,
        block: NpuBlock,
        element_bytes: tuple[int, ...],
    ) -> dict[str, float]:
        """For each region the cycles in which it moves a stripe's bytes: reads and writes share its port."""
        cycles: dict[str, float] = {}

        def add(name: str, size: int, burst: int | None) -> None:
            region = self._system.region(name)
            cycles[name] = cycles.get(name, 0.0) + transfer_cycles(region, size, burst or region.burst)

        for name, size, each in zip(places.inputs, traffic.inputs, element_bytes, strict=True):
            add(name, size, self._read_burst(block, each))
        if traffic.constants:
            add(places.constants, traffic.constants, None)
        add(places.output, traffic.output, self._write_burst(block, workload.output_bytes))
        return cycles

    def _read_burst(self, block: NpuBlock, element_bytes: int) -> int:
        return read_burst(self._layout, block.input, element_bytes)

    def _write_burst(self, block: NpuBlock, element_bytes: int) -> int:
        return write_burst(self._layout, block.output, element_bytes, self._accelerator.cores)

    def _copied(
        self,
        workload: PartWorkload,
        output: Shape,
        inputs: tuple[Shape, ...],
        places: StripePlaces,
        element_bytes: tuple[int, ...],
    ) -> Price:
        """The price of a stripe that the DMA copies: the slower side, whose port reads and writes share."""
        read = tuple(shape.elements * size for shape, size in zip(inputs, element_bytes, strict=True))
        constants = (workload.weight_bytes + workload.scale_bytes) * output.channels
        traffic = StripeTraffic(read, constants, output.elements * workload.output_bytes)
        cycles: dict[str, float] = {}
        for name, size in _moved(traffic, places):
            cycles[name] = cycles.get(name, 0.0) + size / self._system.region(name).bandwidth
        latency = max((self._system.region(name).read_latency for name in places.inputs), default=0)
        return _price(max(cycles.values()), latency, 0, traffic, places, workload.passes)


def _macs(workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...]) -> int:
    if not workload.has_accumulators:
        return 0
    elements = workload.kernel.height * workload.kernel.width * output.elements
    return elements * inputs[0].channels if workload.sums_channels else elements


def _moved(traffic: StripeTraffic, places: StripePlaces) -> list[tuple[str, int]]:
    """What is moved between the NPU and each region."""
    moved = list(zip(places.inputs, traffic.inputs, strict=True))
    if traffic.constants:
        moved.append((places.constants, traffic.constants))
    return [*moved, (places.output, traffic.output)]


def _price(steady: float, fill: float, macs: int, traffic: StripeTraffic, places: StripePlaces, passes: int) -> Price:
    *read, (_, written) = _moved(traffic, places)
    read_from: dict[str, int] = {}
    for name, size in read:
        read_from[name] = read_from.get(name, 0) + size * passes
    return Price(ceil(steady * passes), ceil(fill), macs * passes, read_from, {places.output: written * passes})
