"""Cycles of the NPU for a stripe: arithmetic, output and the overhead of commands, by the public formulas of Vela.

All of it is computed for many blocks at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, PartKind
from nnhal_cascade.hardware.accelerators import Accelerator
from nnhal_cascade.hardware.memory import MemoryRegion
from nnhal_cascade.performance.blocks import (
    BlockSet,
    Integers,
    Numbers,
    is_flat,
    prefers_part_kernel,
)
from nnhal_cascade.performance.traffic import block_transfer
from nnhal_cascade.performance.workload import PartWorkload, PricedStripe

_COMMANDS_AT_ONCE = 4
"""How many commands share the latency of the memories."""
_SCALE_BURST = 256
"""Bytes of scales for which the NPU waits as long as their memory takes to answer."""


class NpuCycles(NamedTuple):
    """Cycles of the NPU for a stripe, by each block, without what the bandwidth of memories costs."""

    steady: Numbers
    """The cycles of the slower of arithmetic and output, for all blocks of the stripe."""
    fill: Numbers
    """The cycles of the faster, for one block."""


class BlockPipeline(NamedTuple):
    """Cycles of the NPU for one block of a stripe, by each block: the same wherever the constants are."""

    arithmetic: Numbers
    """Cycles of the multipliers."""
    output: Numbers
    """Cycles to scale, activate and write."""
    transfer: Numbers
    """Cycles to load the input and to store the output, with the latencies."""
    scales: Integers
    """Bytes."""
    blocks: Integers
    """How many there are."""

    def cycles(self, constants: MemoryRegion | None) -> NpuCycles:
        """Return the cycles of one pass over the stripe, whose constants are in a region."""
        arithmetic, output = self.arithmetic, self.output
        if constants:
            output = np.maximum(output, self.scales * (constants.read_latency / _SCALE_BURST))
        command = (self.transfer + output + arithmetic) / _COMMANDS_AT_ONCE
        slower = np.maximum(np.maximum(arithmetic, output), command)
        return NpuCycles(slower * self.blocks, np.maximum(np.minimum(arithmetic, output), command))


def elementwise_cycles(accelerator: Accelerator, stripe: PricedStripe, blocks: BlockSet) -> NpuCycles:
    """Return the cycles of one pass over a stripe without accumulators. Its blocks are not pipelined."""
    each = output_cycles(accelerator, stripe.workload)
    elements = blocks.rows * blocks.columns * blocks.channels
    command = (block_transfer(stripe, blocks, accelerator.cores) + each * elements) / _COMMANDS_AT_ONCE
    steady = np.maximum(each, command / elements) * stripe.output.elements
    return NpuCycles(steady, np.zeros_like(steady))


def block_pipeline(accelerator: Accelerator, stripe: PricedStripe, blocks: BlockSet) -> BlockPipeline:
    """Return what the NPU does for a stripe with accumulators."""
    workload, output = stripe.workload, stripe.output
    rows, columns, channels = blocks.within(output)
    arithmetic = block_cycles(
        accelerator,
        workload,
        _unit(accelerator, workload, output),
        (rows, columns, channels),
        blocks.input_channels,
        stripe.inputs[0].channels,
        decoding_cycles(accelerator),
    )
    return BlockPipeline(
        arithmetic=arithmetic / accelerator.cores,
        output=np.ceil(output_cycles(accelerator, workload) * (rows * columns * channels)),
        transfer=block_transfer(stripe, blocks, accelerator.cores),
        scales=workload.scale_bytes * channels,
        blocks=-(-output.rows // rows) * -(-output.columns // columns) * -(-output.channels // channels),
    )


def block_cycles(
    accelerator: Accelerator,
    workload: PartWorkload,
    unit: Shape,
    block: tuple[Integers, Integers, Integers],
    input_channels: Integers,
    depth: int,
    decoding: int,
) -> Numbers:
    """Return the cycles of the multipliers of one core for a block of the output.

    Args:
        accelerator: Which it is.
        workload: The part.
        unit: What the multipliers compute at once.
        block: Rows, columns and channels of the block of the output.
        input_channels: Those of its input block.
        depth: Channels of the input.
        decoding: Cycles in which the weights of a step are decoded.
    """
    rows, columns, channels = (-(-extent // each) for extent, each in zip(block, unit, strict=True))
    area = 4 * rows * columns
    part_kernel = prefers_part_kernel(workload)
    held = np.minimum(input_channels, depth)
    groups = -(-held // 8) if part_kernel else 1
    narrow = workload.input_bytes != 2
    total = np.zeros(len(rows))
    for elements in workload.sub_kernels:
        if workload.kind is PartKind.POOLING:
            steps = 1
            at_once = 1 if narrow or accelerator.macs == 32 else 2
            cycles = max(4, elements) * rows * columns * channels * at_once
        elif workload.kind is PartKind.DEPTHWISE:
            steps = -(-elements // 4)
            cycles = np.maximum(decoding, area * (1 if narrow else 2)) * (steps * channels)
        elif part_kernel:
            steps = -(-elements // (4 if narrow else 2))
            cycles = np.maximum(decoding, area) * (steps * channels) * groups
        else:
            steps = elements
            cycles = np.maximum(decoding, area) * (steps * channels)
        total = total + cycles + _waits(accelerator, workload, (rows, columns, channels), steps) * groups
    return total * -(-depth // held) if workload.sums_channels else total


def decoding_cycles(accelerator: Accelerator) -> int:
    """Return the cycles in which the weights of a step are decoded, for all channels of a unit."""
    return 32 * accelerator.block_unit.channels // 8


def output_cycles(accelerator: Accelerator, workload: PartWorkload) -> float:
    """Return the cycles in which an element of the output is scaled, activated and written."""
    operation = workload.operation
    if workload.kind is PartKind.ELEMENTWISE and workload.input_bytes == 4:
        row = 0 if len(workload.inputs) > 1 else 1
    elif operation == "MUL" and workload.output.element_bytes == 4:
        row = 2
    elif operation == "MUL" or workload.wide_accumulators:
        row = 3
    elif operation in ("ADD", "SUB"):
        row = 5
    elif operation == "MAX_POOL_2D":
        row = 6
    else:
        row = 7
    activation = (Activation.TABLE, Activation.CLAMP, Activation.NONE).index(workload.activation)
    return max(accelerator.output_cycles[row], accelerator.activation_cycles[activation])


def _unit(accelerator: Accelerator, workload: PartWorkload, output: Shape) -> Shape:
    """Elements that the multipliers compute at once: a row of four, and not two rows of two, for one row of an even
    width.
    """
    weighted = workload.is_convolution or workload.kind in (PartKind.DEPTHWISE, PartKind.VECTOR_PRODUCT)
    if weighted and is_flat(accelerator, workload, output) and output.columns % 2 == 0:
        return Shape(1, 4, accelerator.block_unit.channels)
    return accelerator.block_unit


def _waits(
    accelerator: Accelerator, workload: PartWorkload, units: tuple[Integers, Integers, Integers], steps: int
) -> Integers:
    """Cycles that a block waits for its own sums, if it is of one unit of rows and columns."""
    rows, columns, channels = units
    wide = workload.wide_accumulators
    delay = accelerator.delays[wide]
    of_one = np.where(channels == 1, steps, (steps - 1) * channels)
    waits: Integers = ((rows == 1) & (columns == 1)) * of_one * delay
    if accelerator.macs == 32 and wide:
        waits = waits + np.where(((rows == 1) | (columns == 1)) & (channels > 1), delay * channels, 0)
    return waits
