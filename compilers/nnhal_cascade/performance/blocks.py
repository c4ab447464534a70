"""Blocks: what the NPU computes in one go, with its operands in the NPU's own memory (SHRAM).

What is tried and what fits are as in Arm's compiler Vela. All blocks of a stripe are in arrays, and compared at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import Accelerator
from nnhal_cascade.performance.workload import SUB_KERNEL, PartWorkload, reach, round_up

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

_BANK = 1024
"""Bytes of a bank of SHRAM."""
_SPLIT_DEPTH = 16
"""A block has all channels of the output, or a multiple of these."""
_TABLE_BANKS = 2
"""Banks of an activation's table."""
_SMALL = 4
"""Rows and columns up to which a block wins over another of equal cost by covering more of the input."""


class BlockSet(NamedTuple):
    """Blocks that fit into SHRAM, each an element of the arrays: by channels, then rows, then columns."""

    rows: Integers
    columns: Integers
    channels: Integers
    input_rows: Integers
    input_columns: Integers
    input_channels: Integers

    def select(self, which: NDArray[np.bool_]) -> BlockSet:
        """Return some of them."""
        return BlockSet(*(each[which] for each in self))

    def only(self, index: int) -> BlockSet:
        """Return one of them, alone."""
        return BlockSet(*(each[index : index + 1] for each in self))

    def within(self, output: Shape) -> tuple[Integers, Integers, Integers]:
        """Return rows, columns and channels, cut to those of a stripe."""
        return (
            np.minimum(self.rows, output.rows),
            np.minimum(self.columns, output.columns),
            np.minimum(self.channels, output.channels),
        )

    def output(self, index: int) -> Shape:
        """Return the extents of one of them."""
        return Shape(int(self.rows[index]), int(self.columns[index]), int(self.channels[index]))


class _Fit(NamedTuple):
    """Facts that decide which blocks fit."""

    kernel: Kernel
    repeats_rows: bool
    input_channels: int
    """The channels of an input block, 0 for those of the output block."""
    input_bytes: int
    input_granule: int
    accumulator_bits: int
    """0 if there are none."""
    accumulator_granule: int
    banks: int
    """Without those of output, end and table."""
    flat: bool
    """True if accumulators are held for a single row although the NPU's unit has two."""
    depths: tuple[int, ...]
    """The numbers of channels that are tried."""


def fitting_blocks(accelerator: Accelerator, workload: PartWorkload, output: Shape, *, flat: bool = False) -> BlockSet:
    """Return the blocks that fit into SHRAM and are no larger than a stripe of the output needs.

    Args:
        accelerator: Which it is.
        workload: The part.
        output: The extents of the stripe.
        flat: Whether accumulators are held for a single row although the NPU's unit has two.

    Raises:
        ValueError: none does.
    """
    unit, largest = accelerator.block_unit, accelerator.largest_block
    rows = round_up(min(output.rows, largest.rows), unit.rows)
    columns = round_up(min(output.columns, largest.columns), unit.columns)
    fit = _fit(accelerator, workload, output.channels, flat)
    blocks = _blocks_up_to(rows, columns, fit, accelerator)
    only = accelerator.only_block
    if only is not None:
        depth = min(only.channels, round_up(output.channels, unit.channels))
        taken = (blocks.rows == min(only.rows, rows)) & (blocks.columns == min(only.columns, columns))
        blocks = blocks.select(taken & (blocks.channels == depth))
    if not blocks.rows.size:
        kernel = workload.kernel
        raise ValueError(
            f"no block{'' if only is None else ' ' + 'x'.join(map(str, only))} of "
            f"{workload.operation or workload.kind} fits into the {accelerator.banks} banks of "
            f"{accelerator.name}: kernel {kernel.height}x{kernel.width}, output {'x'.join(map(str, output))}"
            + ("" if only is None else "; expected a smaller one")
        )
    return blocks


def prefers_part_kernel(workload: PartWorkload) -> bool:
    """Return whether a convolution keeps the multipliers busier by elements of the kernel than by channels."""
    if not workload.is_convolution:
        return False
    channels = workload.inputs[0].shape.channels
    elements = workload.kernel.height * workload.kernel.width
    narrow = workload.input_bytes == 1
    by_channels = channels / round_up(channels, 32 if narrow else 16)
    by_elements = channels * elements / (round_up(channels, 8) * round_up(elements, 4 if narrow else 2))
    return channels <= 8 or by_elements > by_channels


def is_flat(accelerator: Accelerator, workload: PartWorkload, output: Shape) -> bool:
    """Return whether a stripe is of one row, by a kernel of one row, on an NPU whose unit has two."""
    return output.rows == 1 and workload.kernel.height == 1 and accelerator.block_unit.rows == 2


def fewest_fetches(accelerator: Accelerator, workload: PartWorkload, output: Shape, blocks: BlockSet) -> int:
    """Return the index of the block that Vela chooses: the fewest elements of input and weights are fetched for it.

    The cost is halved if the two input buffers hold all of the input.
    """
    needed = workload.input_for(output)
    held = blocks
    if is_flat(accelerator, workload, output):
        held = blocks._replace(rows=np.ones_like(blocks.rows))
    if workload.has_accumulators:
        cost = _fetched(workload, output, needed, held)
    else:
        cost = np.maximum(output.elements / (blocks.rows * blocks.columns * blocks.channels), 1.0)
    all_held = needed.elements < 2 * blocks.input_rows * blocks.input_columns * blocks.input_channels
    return _first_of_cheapest(np.where(all_held, cost / 2, cost), blocks, needed)


def _fit(accelerator: Accelerator, workload: PartWorkload, channels: int, flat: bool) -> _Fit:
    width = (1, 2, 4).index(workload.input_bytes)
    granules = accelerator.input_granules if workload.has_accumulators else accelerator.elementwise_granules
    table_banks = _TABLE_BANKS if workload.activation is Activation.TABLE else 0
    wide = workload.wide_accumulators
    return _Fit(
        kernel=workload.kernel,
        repeats_rows=workload.repeats_rows,
        input_channels=_input_channels(accelerator, workload) if workload.sums_channels else 0,
        input_bytes=workload.input_bytes,
        input_granule=granules[width],
        accumulator_bits=(40 if wide else 32) if workload.has_accumulators else 0,
        accumulator_granule=accelerator.accumulator_granules[wide],
        banks=accelerator.banks - accelerator.reserved_output_banks - max(table_banks, accelerator.reserved_end_banks),
        flat=flat,
        depths=_depths(accelerator, channels),
    )


def _input_channels(accelerator: Accelerator, workload: PartWorkload) -> int:
    channels = workload.inputs[0].shape.channels
    if workload.input_bytes == 2:
        return round_up(min(channels, 16), 4)
    return round_up(min(channels, 16 if prefers_part_kernel(workload) else 32), accelerator.input_unit.channels)


def _depths(accelerator: Accelerator, channels: int) -> tuple[int, ...]:
    full = round_up(channels, accelerator.block_unit.channels)
    largest = accelerator.largest_block.channels
    split = range(_SPLIT_DEPTH, min(full - 1, largest) + 1, _SPLIT_DEPTH)
    return (*split, full) if full <= largest else tuple(split)


@lru_cache(maxsize=4096)
def _blocks_up_to(rows: int, columns: int, fit: _Fit, accelerator: Accelerator) -> BlockSet:
    """The blocks that fit, of at most as many rows and columns."""
    blocks = _all_blocks(fit, accelerator)
    return blocks.select((blocks.rows <= rows) & (blocks.columns <= columns))


@lru_cache(maxsize=1024)
def _all_blocks(fit: _Fit, accelerator: Accelerator) -> BlockSet:
    """The blocks that fit, for outputs of any number of rows and columns."""
    unit, largest = accelerator.block_unit, accelerator.largest_block
    grid = np.meshgrid(
        np.array(fit.depths, np.int64),
        np.arange(unit.rows, largest.rows + 1, unit.rows, dtype=np.int64),
        np.arange(unit.columns, largest.columns + 1, unit.columns, dtype=np.int64),
        indexing="ij",
    )
    channels, rows, columns = (axis.ravel() for axis in grid)
    kernel = fit.kernel
    input_rows = _input_extent(rows, kernel.stride_y, reach(kernel.height, kernel.dilation_y), fit, unit.rows)
    input_columns = _input_extent(columns, kernel.stride_x, reach(kernel.width, kernel.dilation_x), fit, unit.columns)
    input_channels = np.full_like(channels, fit.input_channels) if fit.input_channels else channels
    input_size = input_rows * input_columns * _round_up(input_channels * fit.input_bytes, 8)
    input_banks = _banks(input_size, fit.input_granule)
    other_banks = input_banks
    if fit.accumulator_bits:
        held_rows = 1 if fit.flat else rows
        sums = held_rows * columns * _round_up(channels, 8) * fit.accumulator_bits // 8
        other_banks = _banks(sums, fit.accumulator_granule)
    blocks = BlockSet(rows, columns, channels, input_rows, input_columns, input_channels)
    return blocks.select(input_banks + other_banks <= fit.banks)


def _input_extent(extent: Integers, stride: int, reached: int, fit: _Fit, unit: int) -> Integers:
    """Rows or columns of the input block for those of an output block, by kernels that are cut."""
    upscaled = (extent - 1) * stride + min(reached, SUB_KERNEL) + fit.repeats_rows
    return _round_up(-(-upscaled // fit.kernel.upscale), unit)


def _banks(size: Integers, granule: int) -> Integers:
    """Banks of two buffers of as many bytes."""
    return _round_up(2 * -(-size // _BANK), granule)


def _fetched(workload: PartWorkload, output: Shape, needed: Shape, blocks: BlockSet) -> Numbers:
    """For each block, the elements of input and weights that are fetched for an element of the output."""
    kernel = workload.kernel
    height, width = reach(kernel.height, kernel.dilation_y), reach(kernel.width, kernel.dilation_x)
    repeats = -(-width // SUB_KERNEL) * -(-height // SUB_KERNEL)
    spatial = (output.rows / blocks.rows) * (output.columns / blocks.columns)
    fetched = blocks.input_rows * blocks.input_columns * (needed.channels * repeats) * spatial
    if workload.sums_channels:
        fetched = fetched * -(-output.channels // blocks.channels)
    if workload.is_convolution or workload.kind is PartKind.DEPTHWISE:
        times = -(-output.rows // blocks.rows) * -(-output.columns // blocks.columns)
        for_each = output.channels if workload.sums_channels else 1
        fetched = fetched + times * (height * width * needed.channels * for_each)
    return fetched / output.elements


def _first_of_cheapest(cost: Numbers, blocks: BlockSet, needed: Shape) -> int:
    """The first of the cheapest, unless a small one among them covers more of the input."""
    ties = np.flatnonzero(cost == cost.min())
    chosen, best = int(ties[0]), float("inf")
    for each in map(int, ties[1:]):
        if blocks.rows[each] <= _SMALL and blocks.columns[each] <= _SMALL:
            rows, columns = min(needed.rows, blocks.input_rows[each]), min(needed.columns, blocks.input_columns[each])
            coverage = needed.rows * needed.columns / float(rows * columns)
            if coverage <= best:
                chosen, best = each, coverage
    return chosen


def _round_up(values: Integers, quantum: int) -> Integers:
    return -(-values // quantum) * quantum
