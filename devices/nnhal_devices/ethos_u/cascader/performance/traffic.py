"""Bytes that a stripe moves, and how long the memories take for them."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import PartKind
from nnhal_devices.ethos_u.cascader.hardware.memory import MemoryRegion
from nnhal_devices.ethos_u.cascader.performance.blocks import NpuBlock
from nnhal_devices.ethos_u.cascader.performance.workload import PartWorkload, TensorLayout

_BRICK = 16
"""Channels of a brick, and what a core writes at once of a tensor in row-major order."""
_LONGEST_WRITE = 64
"""Bytes of the longest burst to a tensor in row-major order."""


class StripeTraffic(NamedTuple):
    """Bytes that a stripe moves."""

    inputs: tuple[int, ...]
    """Read, for each of the part's inputs."""
    constants: int
    """Read."""
    output: int
    """Written."""


def stripe_traffic(
    workload: PartWorkload, output: Shape, inputs: tuple[Shape, ...], block: NpuBlock, input_bytes: tuple[int, ...]
) -> StripeTraffic:
    """Return the bytes of one pass over a stripe.

    The input block of each output block is read, and weights once for each block of rows and columns.

    Args:
        workload: The part.
        output: The stripe.
        inputs: What it reads of each input, without padding.
        block: Its block.
        input_bytes: Bytes of an element of each input.
    """
    written = output.elements * workload.output_bytes
    constants = (workload.weight_bytes + workload.scale_bytes) * output.channels
    if not workload.has_accumulators:
        scalars = [shape.elements == 1 for shape in inputs]
        elements = [1 if scalar else output.elements for scalar in scalars]
        return StripeTraffic(_bytes(elements, input_bytes), constants, written)
    shape = Shape(*map(min, output, block.output))
    blocks = Shape(*(-(-extent // each) for extent, each in zip(output, shape, strict=True)))
    spatial = blocks.rows * blocks.columns
    fetched = min(inputs[0].rows, block.input.rows) * min(inputs[0].columns, block.input.columns) * inputs[0].channels
    repeats = len(workload.sub_kernels) * spatial
    if workload.kind not in (PartKind.DEPTHWISE, PartKind.POOLING):
        repeats *= blocks.channels
    constants += workload.weight_bytes * output.channels * (spatial - 1)
    return StripeTraffic(_bytes([fetched * repeats], input_bytes), constants, written)


def read_burst(layout: TensorLayout, block: Shape, element_bytes: int) -> int:
    """Return the bytes of one read of a block of the input."""
    if layout is TensorLayout.BRICKS:
        return _BRICK * element_bytes * block.columns
    return block.channels * element_bytes


def write_burst(layout: TensorLayout, block: Shape, element_bytes: int, cores: int) -> int:
    """Return the bytes of one write of a block of the output."""
    if layout is TensorLayout.BRICKS:
        return _BRICK * element_bytes * block.columns * cores
    return min(_LONGEST_WRITE, _BRICK * element_bytes * cores, block.channels * element_bytes)


def transfer_cycles(region: MemoryRegion, size: int, burst: int) -> float:
    """Return the cycles of moving bytes in bursts; one that is shorter than the region's takes as long."""
    return size * region.burst / (min(region.burst, burst) * region.bandwidth)


def _bytes(elements: list[int], element_bytes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(count * size for count, size in zip(elements, element_bytes, strict=True))
