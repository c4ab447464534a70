"""Bytes that a stripe moves, and how long the memories take for them. Many blocks are looked at at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.hardware.memory import MemoryRegion
from nnhal_devices.ethos_u.cascader.performance.blocks import BlockSet, Integers, Numbers
from nnhal_devices.ethos_u.cascader.performance.npu_cycles import clipped
from nnhal_devices.ethos_u.cascader.performance.price import StripePlaces
from nnhal_devices.ethos_u.cascader.performance.workload import BRICK, MovedTensor, PartWorkload, TensorLayout

_LONGEST_WRITE = 64
"""Bytes of the longest burst to a row that is not in bricks."""


class MovedBytes(NamedTuple):
    """Bytes that a stripe moves."""

    inputs: tuple[int, ...]
    """Read, for each of the part's inputs."""
    constants: int
    """Read."""
    output: int
    """Written."""

    def read_from(self, places: StripePlaces) -> dict[str, int]:
        """Return the bytes read from each region."""
        read: dict[str, int] = {}
        for name, size in zip(places.inputs, self.inputs, strict=True):
            read[name] = read.get(name, 0) + size
        if places.constants:
            read[places.constants] = read.get(places.constants, 0) + self.constants
        return read

    def written_to(self, places: StripePlaces) -> dict[str, int]:
        """Return the bytes written to each region."""
        return {places.output: self.output}


class StripeTraffic(NamedTuple):
    """Bytes that one pass over a stripe moves, by each block."""

    inputs: tuple[Integers, ...]
    """Read, for each of the part's inputs."""
    constants: Integers
    """Read."""
    output: int
    """Written."""

    def of_block(self, index: int, passes: int) -> MovedBytes:
        """Return the bytes of all passes by one of the blocks."""
        return MovedBytes(
            tuple(int(each[index]) * passes for each in self.inputs),
            int(self.constants[index]) * passes,
            self.output * passes,
        )


def stripe_traffic(workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], blocks: BlockSet) -> StripeTraffic:
    """Return the bytes of one pass over a stripe.

    The input block of each output block is read, and weights once for each block of rows and columns.

    Args:
        workload: The part.
        output: The stripe.
        inputs: What it reads of each input, without padding.
        blocks: The blocks.
    """
    written = output.elements * workload.output.element_bytes
    weights, scales = workload.weight_bytes * output.channels, workload.scale_bytes * output.channels
    if not workload.has_accumulators:
        one = np.ones_like(blocks.rows)
        read = tuple(
            one * ((1 if shape.elements == 1 else output.elements) * operand.element_bytes)
            for shape, operand in zip(inputs, workload.inputs, strict=True)
        )
        return StripeTraffic(read, one * (weights + scales), written)
    rows, columns, channels = clipped(blocks, output)
    spatial = -(-output.rows // rows) * -(-output.columns // columns)
    fetched = np.minimum(blocks.input_rows, inputs[0].rows) * np.minimum(blocks.input_columns, inputs[0].columns)
    repeats = len(workload.sub_kernels) * spatial
    if workload.sums_channels:
        repeats = repeats * -(-output.channels // channels)
    read = fetched * repeats * (inputs[0].channels * workload.input_bytes)
    return StripeTraffic((read,), weights * spatial + scales, written)


def read_burst(operand: MovedTensor, blocks: BlockSet) -> Integers:
    """Return the bytes of one read of an input block."""
    if operand.layout is TensorLayout.BRICKS:
        return BRICK * operand.element_bytes * blocks.input_columns
    return operand.element_bytes * blocks.input_channels


def write_burst(operand: MovedTensor, blocks: BlockSet, cores: int) -> Integers:
    """Return the bytes of one write of an output block."""
    if operand.layout is TensorLayout.BRICKS:
        return BRICK * operand.element_bytes * blocks.columns * cores
    longest = min(_LONGEST_WRITE, BRICK * operand.element_bytes * cores)
    return np.minimum(longest, operand.element_bytes * blocks.channels)


def transfer_cycles(region: MemoryRegion, size: Integers | int, burst: Integers | int) -> Numbers:
    """Return the cycles of moving bytes in bursts; one that is shorter than the region's takes as long."""
    return np.asarray(size * (region.burst / np.minimum(region.burst, burst)) / region.bandwidth)
