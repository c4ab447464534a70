"""Cycles of the NPU for a stripe: arithmetic, output and the overhead of commands, by the public formulas of Vela."""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import Activation, PartKind
from nnhal_devices.ethos_u.cascader.hardware.accelerator import Accelerator
from nnhal_devices.ethos_u.cascader.performance.blocks import NpuBlock
from nnhal_devices.ethos_u.cascader.performance.workload import PartWorkload

_COMMANDS_AT_ONCE = 4
"""How many commands share the latency of the memories."""
_SCALE_BURST = 256
"""Cycles in which the scales of a channel, of 10 bytes, cost a latency of their memory a byte."""


class NpuCycles(NamedTuple):
    """Cycles of the NPU for a stripe, without what the bandwidth of memories costs."""

    steady: float
    """Of the slower of arithmetic and output, for all blocks."""
    fill: float
    """Of the faster, for one block."""


def convolution_cycles(
    accelerator: Accelerator,
    workload: PartWorkload,
    output: Shape,
    depth: int,
    block: NpuBlock,
    transfer: float,
    scale_latency: int,
) -> NpuCycles:
    """Return the cycles of a part with accumulators.

    Args:
        accelerator: Which it is.
        workload: The part.
        output: The stripe.
        depth: Channels of the input.
        block: Its block.
        transfer: Cycles to load the first input block and to store an output block.
        scale_latency: Cycles until a read from the region of the constants is answered, 0 if there are no scales.
    """
    shape = Shape(*map(min, output, block.output))
    unit = _unit(accelerator, workload, output)
    if unit.rows < accelerator.block_unit.rows:
        shape = shape._replace(rows=1)
    arithmetic = block_cycles(accelerator, workload, shape, block.input.channels, depth, block.part_kernel, unit)
    arithmetic /= accelerator.cores
    result = float(ceil(output_cycles(accelerator, workload) * shape.elements))
    if workload.scale_bytes:
        result = max(result, workload.scale_bytes * shape.channels * scale_latency / _SCALE_BURST)
    command = (transfer + result + arithmetic) / _COMMANDS_AT_ONCE
    arithmetic, result = max(arithmetic, command), max(result, command)
    blocks = prod(-(-extent // each) for extent, each in zip(output, shape, strict=True))
    return NpuCycles(max(arithmetic, result) * blocks, min(arithmetic, result))


def elementwise_cycles(
    accelerator: Accelerator, workload: PartWorkload, output: Shape, block: NpuBlock, transfer: float
) -> NpuCycles:
    """Return the cycles of an elementwise part: its blocks are not pipelined. The arguments are as above."""
    each = output_cycles(accelerator, workload)
    command = (transfer + each * block.output.elements) / _COMMANDS_AT_ONCE
    return NpuCycles(max(each, command / block.output.elements) * output.elements, 0.0)


def block_cycles(
    accelerator: Accelerator,
    workload: PartWorkload,
    block: Shape,
    block_depth: int,
    depth: int,
    part_kernel: bool,
    unit: Shape | None = None,
) -> float:
    """Return the cycles of the multipliers of one core for a block of the output.

    Args:
        accelerator: Which it is.
        workload: The part.
        block: The block, of a whole number of units or less.
        block_depth: Channels of the input block.
        depth: Channels of the input.
        part_kernel: Whether a convolution goes over elements of the kernel first.
        unit: What the multipliers do at once, if that is not the accelerator's.
    """
    rows, columns, channels = (
        -(-extent // each) for extent, each in zip(block, unit or accelerator.block_unit, strict=True)
    )
    weights = 32 * accelerator.block_unit.channels // 8
    input_groups = -(-min(block_depth, depth) // 8)
    total = 0
    for elements in workload.sub_kernels:
        area = 4 * rows * columns
        steps, cycles = elements, max(weights, area) * elements * channels
        if workload.kind is PartKind.POOLING:
            twice = workload.input_bytes == 2 and accelerator.macs > 32
            steps, cycles = 1, max(4, elements) * rows * columns * channels * (1 + twice)
        elif workload.kind is PartKind.DEPTHWISE:
            steps = -(-elements // 4)
            cycles = max(weights, area * (2 if workload.input_bytes == 2 else 1)) * steps * channels
        elif part_kernel:
            steps = -(-elements // (2 if workload.input_bytes == 2 else 4))
            cycles = max(weights, area) * steps * input_groups * channels
        waits = _waits(accelerator, workload, rows, columns, channels, steps)
        total += cycles + waits * (input_groups if part_kernel else 1)
    return total * (-(-depth // block_depth) if workload.sums_channels else 1)


def output_cycles(accelerator: Accelerator, workload: PartWorkload) -> float:
    """Return the cycles in which an element of the output is scaled, activated and written."""
    operation = workload.operation
    if workload.kind is PartKind.ELEMENTWISE and workload.input_bytes == 4:
        row = 0 if len(workload.inputs) > 1 else 1
    elif operation == "MUL" and workload.output_bytes == 4:
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
    """What the multipliers do at once: a row of four, and not two of two, for a single row of an even width."""
    unit = accelerator.block_unit
    weighted = workload.is_convolution or workload.kind in (PartKind.DEPTHWISE, PartKind.VECTOR_PRODUCT)
    if unit.rows == 2 and weighted and output.rows == 1 and output.columns % 2 == 0 and workload.kernel.height == 1:
        return Shape(1, 4, unit.channels)
    return unit


def _waits(accelerator: Accelerator, workload: PartWorkload, rows: int, columns: int, channels: int, steps: int) -> int:
    """Cycles that a block waits for its own sums, if it is of one unit of rows and columns."""
    wide = workload.wide_accumulators
    delay = accelerator.delays[wide]
    waits = 0
    if rows == columns == 1:
        if channels == 1:
            waits = delay * steps
        elif steps > 1:
            waits = delay * (steps - 1) * channels
    if accelerator.macs == 32 and wide and (rows == 1 or columns == 1) and channels > 1:
        waits += delay * channels
    return waits
