"""Bytes that a stripe moves, and how long the memories take for them. Many blocks are looked at at once."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from nnhal_cascade.hardware.memory import MemoryRegion
from nnhal_cascade.performance.blocks import BlockSet, Integers, Numbers
from nnhal_cascade.performance.workload import BRICK, MovedTensor, PricedStripe, TensorLayout

_LONGEST_WRITE = 64
"""Bytes of the longest burst to a row that is not in bricks."""


class StripeTraffic(NamedTuple):
    """Bytes that one pass over a stripe moves, by each block."""

    inputs: tuple[Integers, ...]
    """Read, for each of the part's inputs."""
    constants: Integers
    """Read."""
    output: int
    """Written."""

    def read(self, stripe: PricedStripe, index: int) -> dict[str, int]:
        """Return the bytes that all passes read from each region, by one of the blocks."""
        read: dict[str, int] = {}
        for region, size in zip(stripe.sources, self.inputs, strict=True):
            read[region.name] = read.get(region.name, 0) + int(size[index]) * stripe.workload.passes
        if stripe.constants:
            name = stripe.constants.name
            read[name] = read.get(name, 0) + int(self.constants[index]) * stripe.workload.passes
        return read

    def written(self, stripe: PricedStripe) -> dict[str, int]:
        """Return the bytes that all passes write to each region."""
        return {stripe.destination.name: self.output * stripe.workload.passes}


class Bursts(NamedTuple):
    """Bytes of one access, by each block."""

    inputs: tuple[Integers | int, ...]
    output: Integers | int


def computed_traffic(stripe: PricedStripe, blocks: BlockSet) -> StripeTraffic:
    """Return the bytes of one pass of the NPU over a stripe.

    The input block of each output block is read, and weights once for each block of rows and columns.
    """
    workload, output, inputs = stripe.workload, stripe.output, stripe.inputs
    written = output.elements * workload.output.element_bytes
    weights, scales = workload.weight_bytes * output.channels, workload.scale_bytes * output.channels
    if not workload.has_accumulators:
        one = np.ones_like(blocks.rows)
        read = tuple(
            one * ((1 if shape.elements == 1 else output.elements) * tensor.element_bytes)
            for shape, tensor in zip(inputs, workload.inputs, strict=True)
        )
        return StripeTraffic(read, one * (weights + scales), written)
    rows, columns, channels = blocks.within(output)
    spatial = -(-output.rows // rows) * -(-output.columns // columns)
    fetched = np.minimum(blocks.input_rows, inputs[0].rows) * np.minimum(blocks.input_columns, inputs[0].columns)
    repeats = len(workload.sub_kernels) * spatial
    if workload.sums_channels:
        repeats = repeats * -(-output.channels // channels)
    read_once = fetched * repeats * (inputs[0].channels * workload.input_bytes)
    return StripeTraffic((read_once,), weights * spatial + scales, written)


def copied_traffic(stripe: PricedStripe) -> StripeTraffic:
    """Return the bytes of a stripe that the DMA copies, as if it were one block."""
    workload = stripe.workload
    return StripeTraffic(
        tuple(
            np.array([shape.elements * tensor.element_bytes])
            for shape, tensor in zip(stripe.inputs, workload.inputs, strict=True)
        ),
        np.array([(workload.weight_bytes + workload.scale_bytes) * stripe.output.channels]),
        stripe.output.elements * workload.output.element_bytes,
    )


def block_bursts(stripe: PricedStripe, blocks: BlockSet, cores: int) -> Bursts:
    """Return how long the accesses of the NPU are."""
    workload = stripe.workload
    return Bursts(
        tuple(_read_burst(tensor, blocks) for tensor in workload.inputs), _write_burst(workload.output, blocks, cores)
    )


def full_bursts(stripe: PricedStripe) -> Bursts:
    """Return how long the accesses of the DMA are: as long as a memory's own bursts."""
    return Bursts(tuple(region.burst for region in stripe.sources), stripe.destination.burst)


def block_transfer(stripe: PricedStripe, blocks: BlockSet, cores: int) -> Numbers:
    """Return for each block the cycles to load its input block and to store it, with the latencies."""
    source, destination = stripe.sources[0], stripe.destination
    bursts = block_bursts(stripe, blocks, cores)
    rows, columns, channels = blocks.within(stripe.output)
    stored = rows * columns * channels * stripe.workload.output.element_bytes
    needed = stripe.inputs[0]
    loaded = (
        np.minimum(blocks.input_rows, needed.rows)
        * np.minimum(blocks.input_columns, needed.columns)
        * np.minimum(blocks.input_channels, needed.channels)
        * stripe.workload.input_bytes
    )
    latency = source.read_latency + destination.write_latency
    return latency + _transfer(source, loaded, bursts.inputs[0]) + _transfer(destination, stored, bursts.output)


def access_cycles(stripe: PricedStripe, traffic: StripeTraffic, bursts: Bursts) -> Numbers:
    """Return for each block the cycles of the region that is busiest: its reads and writes share a port."""
    moved: list[tuple[MemoryRegion, Integers | int, Integers | int]] = [
        (stripe.destination, traffic.output, bursts.output)
    ]
    moved.extend(zip(stripe.sources, traffic.inputs, bursts.inputs, strict=True))
    if stripe.constants:
        moved.append((stripe.constants, traffic.constants, stripe.constants.burst))
    cycles: dict[str, Numbers] = {}
    for region, size, burst in moved:
        cycles[region.name] = cycles.get(region.name, np.zeros(1)) + _transfer(region, size, burst)
    return reduce(np.maximum, cycles.values())


def _read_burst(tensor: MovedTensor, blocks: BlockSet) -> Integers:
    if tensor.layout is TensorLayout.BRICKS:
        return BRICK * tensor.element_bytes * blocks.input_columns
    return tensor.element_bytes * blocks.input_channels


def _write_burst(tensor: MovedTensor, blocks: BlockSet, cores: int) -> Integers:
    if tensor.layout is TensorLayout.BRICKS:
        return BRICK * tensor.element_bytes * blocks.columns * cores
    longest = min(_LONGEST_WRITE, BRICK * tensor.element_bytes * cores)
    return np.minimum(longest, tensor.element_bytes * blocks.channels)


def _transfer(region: MemoryRegion, size: Integers | int, burst: Integers | int) -> Numbers:
    """Cycles of moving bytes in bursts; one that is shorter than the region's takes as long."""
    return np.asarray(size * (region.burst / np.minimum(region.burst, burst)) / region.bandwidth)
