"""The performance of a part as TVM's cascader published it (v0.12), beside the device's own model.

Nothing is planned by it. It says what others would, for comparisons. It differs from the device's own model: blocks are
fractions of a stripe, and neither commands nor the bandwidth of memories cost anything.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

import numpy as np

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, PartKind
from nnhal_cascade.hardware.accelerators import Accelerator
from nnhal_cascade.performance.blocks import BlockSet, fitting_blocks
from nnhal_cascade.performance.npu_cycles import block_cycles, decoding_cycles
from nnhal_cascade.performance.workload import PartWorkload, reach

_BASE_CYCLES = {"MAX_POOL_2D": 1, "MINIMUM": 2, "MAXIMUM": 2, "MUL": 3, "ADD": 6, "SUB": 6}
"""Cycles of one output unit for an element, by operation; those of any other take 2."""
_ADDITION_TO_32_BITS = 3
"""The figures of an addition or a subtraction whose output has elements of 32 bits."""


class PublishedBlock(NamedTuple):
    """A block that fits into the NPU's own memory; its cycles are those of one block."""

    output: Shape
    input: Shape
    compute_cycles: int
    output_cycles: int


class PartPerformance(NamedTuple):
    """What a part costs with its stripes."""

    block: PublishedBlock
    cycles: int
    read: tuple[int, ...]
    """Bytes of the input, then of weights and of scales if there are any."""
    written: int
    """Bytes."""


class PublishedPart:
    """A part with one input and accumulators: a convolution, a depthwise one or a pooling of elements of 8 bits."""

    def __init__(self, accelerator: Accelerator, workload: PartWorkload, padding: tuple[int, int] = (0, 0)) -> None:
        """Take a part.

        Args:
            accelerator: Which it is.
            workload: The part.
            padding: Rows above, and columns left of the input.

        Raises:
            ValueError: no block of it fits into the NPU's own memory.
        """
        self._workload = workload
        self._padding = padding
        self.valid_blocks = _undominated(_blocks(accelerator, workload))
        """The blocks that fit, without those that another is larger than."""

    def block(self, stripe: Shape) -> PublishedBlock:
        """Return the block for stripes of the output: the fewest bytes of input and weights for one of its elements.

        They count half if two input blocks hold all that a stripe needs.
        """
        needed = prod(self._needed(stripe))
        best, least = self.valid_blocks[0], float("inf")
        for block in self.valid_blocks:
            read = self._read(block.output, stripe)
            cost = np.float32(read[0] * len(self._workload.sub_kernels) + sum(read[1:2])) / np.float32(stripe.elements)
            if needed <= 2 * block.input.elements:
                cost /= 2
            if cost < least:
                best, least = block, float(cost)
        return best

    def performance(self, stripe: Shape, rolling: bool) -> PartPerformance:
        """Return what the part costs in stripes: with rolling buffers no element is computed twice."""
        block = self.block(stripe)
        output = self._workload.output.shape
        stripes = tuple(-(-whole // each) for whole, each in zip(output, stripe, strict=True))
        blocks = np.float32(1)
        for whole, each, count, size in zip(output, stripe, stripes, block.output, strict=True):
            share = np.float32(whole) / np.float32(size) if rolling else np.float32(each) / np.float32(size) * count
            blocks *= max(share, np.float32(1))
        slow, fast = sorted((block.compute_cycles, block.output_cycles), reverse=True)
        return PartPerformance(
            block=block,
            cycles=int(np.float32(slow) * blocks + np.float32(fast)),
            read=tuple(each * prod(stripes) for each in self._read(block.output, stripe)),
            written=int(blocks * np.float32(block.output.elements)),
        )

    def _needed(self, output: Shape) -> tuple[int, int, int]:
        """The extents of the input for those of an output, without a border."""
        kernel = self._workload.kernel
        rows = (output.rows - 1) * kernel.stride_y + reach(kernel.height, kernel.dilation_y)
        columns = (output.columns - 1) * kernel.stride_x + reach(kernel.width, kernel.dilation_x)
        return (
            rows,
            columns,
            self._workload.inputs[0].shape.channels if self._workload.sums_channels else output.channels,
        )

    def _read(self, block: Shape, stripe: Shape) -> tuple[int, ...]:
        """The bytes that a stripe reads block by block: weights again for each block of rows and columns."""
        workload, kernel = self._workload, self._workload.kernel
        counts = [-(-whole // each) for whole, each in zip(stripe, block, strict=True)]
        strides = (block.rows * kernel.stride_y, block.columns * kernel.stride_x, block.channels)
        offsets = (-self._padding[0], -self._padding[1], 0)
        if workload.sums_channels:
            counts[2] = 1
        read = prod(
            _elements(*axis)
            for axis in zip(self._needed(block), self._needed(stripe), strides, counts, offsets, strict=True)
        )
        if not workload.weight_bytes:
            return (read,)
        weights = workload.weight_bytes * stripe.channels * counts[0] * counts[1]
        return read, weights, workload.scale_bytes * stripe.channels


def published_output_cycles(accelerator: Accelerator, workload: PartWorkload) -> float:
    """Return the cycles in which an element of an output of elements of 8 or 32 bits is made from ones of 8 bits."""
    units = accelerator.macs // 32
    to_32_bits = workload.output.element_bytes == 4
    base = _BASE_CYCLES.get(workload.operation, 2)
    if workload.operation in ("ADD", "SUB") and to_32_bits:
        base = _ADDITION_TO_32_BITS
    bandwidth = (0.75 if to_32_bits else 0.125) if workload.kind is PartKind.ELEMENTWISE else 0.0
    activation = {
        Activation.NONE: 0.0,
        Activation.CLAMP: accelerator.activation_cycles[1],
        Activation.TABLE: 2.0 if units == 1 else 1.0,
    }
    return max(base / units, activation[workload.activation], bandwidth)


def _blocks(accelerator: Accelerator, workload: PartWorkload) -> list[PublishedBlock]:
    """The blocks that fit, with their cycles, by rows, then columns, then channels."""
    blocks = fitting_blocks(accelerator, workload, workload.output.shape)
    depth = workload.inputs[0].shape.channels
    compute = block_cycles(
        accelerator,
        workload,
        accelerator.block_unit,
        (blocks.rows, blocks.columns, blocks.channels),
        blocks.input_channels,
        depth,
        decoding=0 if workload.kind is PartKind.DEPTHWISE else decoding_cycles(accelerator),
    )
    each = published_output_cycles(accelerator, workload)
    return sorted(_block(blocks, index, int(compute[index]), each, workload) for index in range(blocks.rows.size))


def _block(blocks: BlockSet, index: int, compute: int, each: float, workload: PartWorkload) -> PublishedBlock:
    output = blocks.output(index)
    channels = int(blocks.input_channels[index])
    if workload.sums_channels:
        channels = min(channels, workload.inputs[0].shape.channels)
    read = Shape(int(blocks.input_rows[index]), int(blocks.input_columns[index]), channels)
    return PublishedBlock(output, read, compute, ceil(each * output.elements))


def _undominated(blocks: list[PublishedBlock]) -> tuple[PublishedBlock, ...]:
    """The blocks that no other is at least as large as along each axis."""
    shapes = np.array([block.output for block in blocks])
    covered = np.all(shapes[None] >= shapes[:, None], axis=-1).sum(axis=1) > 1
    return tuple(block for block, by_another in zip(blocks, covered, strict=True) if not by_another)


def _elements(shape: int, extent: int, stride: int, count: int, offset: int) -> int:
    """The elements of windows along an axis; before the first and after the last of the extent there are none."""
    starts = (offset + stride * index for index in range(count))
    return sum(max(0, min(start + shape, extent) - max(start, 0)) for start in starts)
