"""The price of any stripe of any part of a graph."""

from __future__ import annotations

from enum import Enum, auto
from math import ceil

import numpy as np

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph, PartKind
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.blocks import (
    BlockSet,
    Numbers,
    fewest_fetches,
    fitting_blocks,
    prefers_part_kernel,
)
from nnhal_devices.ethos_u.cascader.performance.npu_cycles import (
    NpuCycles,
    accumulated_cycles,
    clipped,
    elementwise_cycles,
)
from nnhal_devices.ethos_u.cascader.performance.price import Price, StripePlaces
from nnhal_devices.ethos_u.cascader.performance.traffic import (
    MovedBytes,
    StripeTraffic,
    read_burst,
    stripe_traffic,
    transfer_cycles,
    write_burst,
)
from nnhal_devices.ethos_u.cascader.performance.workload import PartWorkload, workload_of


class BlockGoal(Enum):
    """By what the block of a stripe is chosen."""

    CYCLES = auto()
    """The modelled cycles of the stripe alone."""
    FETCHES = auto()
    """The elements that are fetched, as Vela does."""


class StripePricer:
    """Prices the stripes of a graph's parts on a system, each once. Equal parts share their prices."""

    def __init__(self, graph: CascaderGraph, system: System, goal: BlockGoal = BlockGoal.CYCLES) -> None:
        self._system = system
        self._goal = goal
        interned: dict[PartWorkload, PartWorkload] = {}
        self._workloads = [interned.setdefault(each, each) for each in (workload_of(graph, p) for p in graph.parts)]
        self._priced: dict[tuple[int, Shape, tuple[Shape, ...], StripePlaces], tuple[Price, Shape]] = {}

    def price(self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces) -> Price:
        """Return the price of one stripe of a part.

        Args:
            part_index: The part.
            output: The extents of the stripe.
            inputs: The extents of what it reads of each input, without padding.
            places: Where they are.

        Raises:
            ValueError: the NPU's own memory holds no block of the part, or the system has no region of a name.
        """
        return self._find(part_index, output, inputs, places)[0]

    def block(self, part_index: int, output: Shape) -> Shape:
        """Return the block in which the NPU computes a stripe of a part that lies in the working memory.

        Its constants are there too. A copy has no blocks, so its block is the stripe.
        """
        workload = self._workloads[part_index]
        working = self._system.working.name
        constants = working if workload.weight_bytes + workload.scale_bytes else ""
        places = StripePlaces((working,) * len(workload.inputs), working, constants)
        inputs = (workload.input_for(output),) * len(workload.inputs)
        return self._find(part_index, output, inputs, places)[1]

    def _find(
        self, part_index: int, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces
    ) -> tuple[Price, Shape]:
        workload = self._workloads[part_index]
        key = (id(workload), output, inputs, places)
        found = self._priced.get(key)
        if found is None:
            priced = self._copied if workload.kind is PartKind.COPY else self._computed
            found = self._priced[key] = priced(workload, output, inputs, places)
        return found

    def _computed(
        self, workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces
    ) -> tuple[Price, Shape]:
        """The price of a stripe that the NPU computes, and the block in which it does."""
        blocks = fitting_blocks(self._system.accelerator, workload, output)
        if self._goal is BlockGoal.FETCHES:
            chosen = fewest_fetches(self._system.accelerator, workload, output, blocks)
            blocks = blocks.only(chosen)
        npu = self._npu_cycles(workload, output, inputs, places, blocks)
        traffic = stripe_traffic(workload, output, inputs, blocks)
        access = self._access_cycles(workload, traffic, places, blocks)
        cycles = np.ceil(np.maximum(npu.steady, access) * workload.passes)
        chosen = int(np.argmin(cycles + npu.fill))
        moved = traffic.of_block(chosen, workload.passes)
        macs = _macs(workload, output, inputs) * workload.passes
        price = Price(
            int(cycles[chosen]), ceil(npu.fill[chosen]), macs, moved.read_from(places), moved.written_to(places)
        )
        return price, Shape(*map(min, output, blocks.output(chosen)))

    def _npu_cycles(
        self, workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces, blocks: BlockSet
    ) -> NpuCycles:
        accelerator = self._system.accelerator
        transfer = self._block_transfer(workload, output, inputs[0], places, blocks)
        if not workload.has_accumulators:
            return elementwise_cycles(accelerator, workload, output, blocks, transfer)
        latency = self._system.region(places.constants).read_latency if workload.scale_bytes else 0
        part_kernel = prefers_part_kernel(workload)
        depth = inputs[0].channels
        return accumulated_cycles(accelerator, workload, output, depth, blocks, part_kernel, transfer, latency)

    def _block_transfer(
        self, workload: PartWorkload, output: Shape, needed: Shape, places: StripePlaces, blocks: BlockSet
    ) -> Numbers:
        """For each block the cycles to load its input block and to store it, with the latencies."""
        source, destination = self._system.region(places.inputs[0]), self._system.region(places.output)
        rows, columns, channels = clipped(blocks, output)
        stored = rows * columns * channels * workload.output.element_bytes
        loaded = (
            np.minimum(blocks.input_rows, needed.rows)
            * np.minimum(blocks.input_columns, needed.columns)
            * np.minimum(blocks.input_channels, needed.channels)
            * workload.input_bytes
        )
        cores = self._system.accelerator.cores
        return (
            source.read_latency
            + transfer_cycles(source, loaded, read_burst(workload.inputs[0], blocks))
            + destination.write_latency
            + transfer_cycles(destination, stored, write_burst(workload.output, blocks, cores))
        )

    def _access_cycles(
        self, workload: PartWorkload, traffic: StripeTraffic, places: StripePlaces, blocks: BlockSet
    ) -> Numbers:
        """For each block the cycles of the region that is busiest: its reads and writes share a port."""
        output = self._system.region(places.output)
        written = transfer_cycles(
            output, traffic.output, write_burst(workload.output, blocks, self._system.accelerator.cores)
        )
        cycles = {output.name: written}
        for name, size, operand in zip(places.inputs, traffic.inputs, workload.inputs, strict=True):
            cycles[name] = cycles.get(name, 0) + transfer_cycles(
                self._system.region(name), size, read_burst(operand, blocks)
            )
        if places.constants:
            region = self._system.region(places.constants)
            cycles[region.name] = cycles.get(region.name, 0) + transfer_cycles(region, traffic.constants, region.burst)
        busiest: Numbers = np.max(np.broadcast_arrays(*cycles.values()), axis=0)
        return busiest

    def _copied(
        self, workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], places: StripePlaces
    ) -> tuple[Price, Shape]:
        """The price of a stripe that the DMA copies: a region's reads and writes share its port. Its block is all."""
        moved = MovedBytes(
            inputs=tuple(
                shape.elements * each.element_bytes for shape, each in zip(inputs, workload.inputs, strict=True)
            ),
            constants=(workload.weight_bytes + workload.scale_bytes) * output.channels,
            output=output.elements * workload.output.element_bytes,
        )
        read, written = moved.read_from(places), moved.written_to(places)
        cycles = (
            (read.get(region.name, 0) + written.get(region.name, 0)) / region.bandwidth
            for region in self._system.regions
        )
        latency = max((self._system.region(name).read_latency for name in read), default=0)
        return Price(ceil(max(cycles)), latency, 0, read, written), output


def _macs(workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...]) -> int:
    if not workload.has_accumulators:
        return 0
    elements = workload.kernel.height * workload.kernel.width * output.elements
    return elements * inputs[0].channels if workload.sums_channels else elements
