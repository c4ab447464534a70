"""The block of a stripe: what the NPU computes in one go, with its operands in the NPU's own memory (SHRAM).

The candidates, what fits, and the criterion are those of Arm's compiler Vela (its allocator of the architecture): bytes
of input and weights that are fetched for an element of the output, halved if the whole input fits into the two input
buffers. All candidates are compared at once, in arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_devices.ethos_u.cascader.hardware.accelerator import Accelerator
from nnhal_devices.ethos_u.cascader.performance.workload import SUB_KERNEL, PartWorkload, reach, round_up

_BANK = 1024
"""Bytes of a bank of SHRAM."""
_SPLIT_DEPTH = 16
"""A block has all channels of the output, or a multiple of these."""
_TABLE_BANKS = 2
"""Banks of an activation's table."""
_SMALL = 4
"""Rows and columns up to which a block wins over another of equal cost by covering more of the input."""

_Integers = NDArray[np.int64]


class NpuBlock(NamedTuple):
    """A block, and how the NPU goes over the input for it."""

    output: Shape
    input: Shape
    part_kernel: bool
    """Whether a convolution goes over elements of the kernel first, and not over channels."""


class _Candidates(NamedTuple):
    """Blocks that fit into SHRAM, in the order in which they are compared."""

    rows: _Integers
    columns: _Integers
    channels: _Integers
    input_rows: _Integers
    input_columns: _Integers
    input_channels: _Integers


class _Fit(NamedTuple):
    """What decides which blocks fit."""

    kernel: Kernel
    nearest: bool
    input_channels: int
    """Of an input block, 0 for those of the output block."""
    input_bytes: int
    input_granule: int
    accumulator_bits: int
    """0 if there are none."""
    accumulator_granule: int
    banks: int
    """Without those of output, end and table."""
    flat: bool
    """Whether blocks hold a single row although the NPU's unit has two."""


def choose_block(accelerator: Accelerator, workload: PartWorkload, output: Shape) -> NpuBlock:
    """Return the block that fetches the fewest bytes for an element of a stripe of the output.

    Raises:
        ValueError: no block fits into SHRAM.
    """
    part_kernel = prefers_part_kernel(workload)
    needed = workload.input_for(output)
    limits = _limits(accelerator, output)
    fit = _fit(accelerator, workload, output, part_kernel)
    blocks = _within(_candidates(fit, accelerator, _depths(accelerator, output.channels)), limits)
    if not len(blocks.rows):
        raise ValueError(
            f"no block of {workload.operation or workload.kind} fits into the {accelerator.banks} banks of "
            f"{accelerator.name}: kernel {workload.kernel.height}x{workload.kernel.width}, output {tuple(output)}"
        )
    chosen = _cheapest(blocks, _fetched(workload, output, needed, blocks, fit.flat), needed)
    return NpuBlock(
        Shape(int(blocks.rows[chosen]), int(blocks.columns[chosen]), int(blocks.channels[chosen])),
        Shape(int(blocks.input_rows[chosen]), int(blocks.input_columns[chosen]), int(blocks.input_channels[chosen])),
        part_kernel,
    )


def prefers_part_kernel(workload: PartWorkload) -> bool:
    """Return whether a convolution keeps the multipliers busier by elements of the kernel than by channels."""
    if not workload.is_convolution:
        return False
    channels = workload.inputs[0].channels
    elements = workload.kernel.height * workload.kernel.width
    by_byte = workload.input_bytes == 1
    by_channels = channels / round_up(channels, 32 if by_byte else 16)
    by_elements = channels * elements / (round_up(channels, 8) * round_up(elements, 4 if by_byte else 2))
    return channels <= 8 or by_elements > by_channels


def _limits(accelerator: Accelerator, output: Shape) -> Shape:
    """The largest block that is tried for an output."""
    return Shape(
        *(
            round_up(min(extent, largest), unit)
            for extent, largest, unit in zip(output, accelerator.largest_block, accelerator.block_unit, strict=True)
        )
    )


def _depths(accelerator: Accelerator, channels: int) -> tuple[int, ...]:
    """The numbers of channels that a block may have."""
    full = round_up(channels, accelerator.block_unit.channels)
    largest = accelerator.largest_block.channels
    split = range(_SPLIT_DEPTH, min(full - 1, largest) + 1, _SPLIT_DEPTH)
    return (*split, full) if full <= largest else tuple(split)


def _fit(accelerator: Accelerator, workload: PartWorkload, output: Shape, part_kernel: bool) -> _Fit:
    width = (1, 2, 4).index(workload.input_bytes)
    granules = accelerator.input_granules if workload.has_accumulators else accelerator.elementwise_granules
    table_banks = _TABLE_BANKS if workload.activation is Activation.TABLE else 0
    end_banks = max(table_banks, accelerator.reserved_end_banks)
    wide = workload.wide_accumulators
    kernel = workload.kernel
    return _Fit(
        kernel=kernel,
        nearest=kernel.upscale > 1 and workload.kind is not PartKind.TRANSPOSE_CONVOLUTION,
        input_channels=_input_channels(accelerator, workload, part_kernel) if workload.sums_channels else 0,
        input_bytes=workload.input_bytes,
        input_granule=granules[width],
        accumulator_bits=(40 if wide else 32) if workload.has_accumulators else 0,
        accumulator_granule=accelerator.accumulator_granules[wide],
        banks=accelerator.banks - accelerator.reserved_output_banks - end_banks,
        flat=output.rows == 1 and kernel.height == 1 and accelerator.block_unit.rows == 2,
    )


def _input_channels(accelerator: Accelerator, workload: PartWorkload, part_kernel: bool) -> int:
    channels = workload.inputs[0].channels
    if workload.input_bytes == 2:
        return round_up(min(channels, 16), 4)
    return round_up(min(channels, 16 if part_kernel else 32), accelerator.input_unit.channels)


@lru_cache(maxsize=1024)
def _candidates(fit: _Fit, accelerator: Accelerator, depths: tuple[int, ...]) -> _Candidates:
    """The blocks that fit, for outputs of any number of rows and columns."""
    unit, largest = accelerator.block_unit, accelerator.largest_block
    grid = np.meshgrid(
        np.array(depths, np.int64),
        np.arange(unit.rows, largest.rows + 1, unit.rows, dtype=np.int64),
        np.arange(unit.columns, largest.columns + 1, unit.columns, dtype=np.int64),
        indexing="ij",
    )
    channels, rows, columns = (axis.ravel() for axis in grid)
    kernel = fit.kernel
    input_rows = _input_extent(rows, kernel.stride_y, reach(kernel.height, kernel.dilation_y), fit, unit.rows)
    input_columns = _input_extent(columns, kernel.stride_x, reach(kernel.width, kernel.dilation_x), fit, unit.columns)
    input_channels = np.full_like(channels, fit.input_channels) if fit.input_channels else channels
    input_banks = _banks(input_rows * input_columns * _round_up(input_channels * fit.input_bytes, 8), fit.input_granule)
    if fit.accumulator_bits:
        held_rows = np.ones_like(rows) if fit.flat else rows
        sums = held_rows * columns * _round_up(channels, 8) * fit.accumulator_bits // 8
        other_banks = _banks(sums, fit.accumulator_granule)
    else:
        other_banks = input_banks
    return _select(
        _Candidates(rows, columns, channels, input_rows, input_columns, input_channels),
        input_banks + other_banks <= fit.banks,
    )


def _input_extent(extent: _Integers, stride: int, reached: int, fit: _Fit, unit: int) -> _Integers:
    """Rows or columns of the input block for those of an output block, by kernels that are cut."""
    upscaled = (extent - 1) * stride + min(reached, SUB_KERNEL) + fit.nearest
    return _round_up(-(-upscaled // fit.kernel.upscale), unit)


def _banks(size: _Integers, granule: int) -> _Integers:
    """Banks of two buffers of as many bytes."""
    return _round_up(2 * -(-size // _BANK), granule)


def _within(blocks: _Candidates, limits: Shape) -> _Candidates:
    return _select(blocks, (blocks.rows <= limits.rows) & (blocks.columns <= limits.columns))


def _select(blocks: _Candidates, which: NDArray[np.bool_]) -> _Candidates:
    return _Candidates(*(each[which] for each in blocks))


def _fetched(
    workload: PartWorkload, output: Shape, needed: Shape, blocks: _Candidates, flat: bool
) -> NDArray[np.float64]:
    """For each block, the elements of input and weights that are fetched for an element of the output."""
    if not workload.has_accumulators:
        cost = np.maximum(output.elements / (blocks.rows * blocks.columns * blocks.channels), 1.0)
    else:
        rows = np.ones_like(blocks.rows) if flat else blocks.rows
        cost = _fetched_by_windows(workload, output, needed, blocks._replace(rows=rows))
    held_twice = needed.elements < 2 * blocks.input_rows * blocks.input_columns * blocks.input_channels
    return np.where(held_twice, cost / 2, cost)


def _fetched_by_windows(
    workload: PartWorkload, output: Shape, needed: Shape, blocks: _Candidates
) -> NDArray[np.float64]:
    kernel = workload.kernel
    height, width = reach(kernel.height, kernel.dilation_y), reach(kernel.width, kernel.dilation_x)
    repeats = -(-width // SUB_KERNEL) * -(-height // SUB_KERNEL)
    inputs = (
        blocks.input_rows * blocks.input_columns * (needed.channels * repeats)
        * ((output.rows / blocks.rows) * (output.columns / blocks.columns))
    )  # fmt: skip
    if workload.sums_channels:
        inputs = inputs * -(-output.channels // blocks.channels)
    if workload.is_convolution or workload.kind is PartKind.DEPTHWISE:
        spatial = -(-output.rows // blocks.rows) * -(-output.columns // blocks.columns)
        weights = spatial * (height * width * needed.channels * (output.channels if workload.sums_channels else 1))
        inputs = inputs + weights
    return inputs / output.elements


def _cheapest(blocks: _Candidates, cost: NDArray[np.float64], needed: Shape) -> int:
    """The first of the cheapest, unless a small one among them covers more of the input."""
    ties = np.flatnonzero(cost == cost.min())
    chosen, best = int(ties[0]), float("inf")
    for each in ties[1:]:
        if blocks.rows[each] <= _SMALL and blocks.columns[each] <= _SMALL:
            covered = min(needed.rows, blocks.input_rows[each]) * min(needed.columns, blocks.input_columns[each])
            coverage = needed.rows * needed.columns / covered
            if coverage <= best:
                chosen, best = int(each), coverage
    return chosen


def _round_up(values: _Integers, quantum: int) -> _Integers:
    return -(-values // quantum) * quantum
