"""Blocks that fit into the NPU's own memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import ACCELERATORS, accelerator
from nnhal_cascade.performance.blocks import (
    fewest_fetches,
    fitting_blocks,
    is_flat,
    prefers_part_kernel,
)
from nnhal_cascade.performance.workload import PartWorkload, round_up, workload_of
from tests.support.cascader_parts import one_part
from tests.support.searching import search

CONVOLUTION, DEPTHWISE = PartKind.CONVOLUTION, PartKind.DEPTHWISE


def workload(
    kind: PartKind,
    depth: int,
    channels: int,
    kernel: Kernel,
    *,
    activation: Activation = Activation.NONE,
    element_bytes: int = 1,
) -> PartWorkload:
    graph = one_part(
        kind,
        ((64, 64, depth),),
        (64, 64, channels),
        kernel=kernel,
        activation=activation,
        element_bytes=element_bytes,
    )
    return workload_of(graph, graph.parts[0])


def banks(size: int, granule: int) -> int:
    """Banks of two buffers, as the hardware's documentation counts them."""
    return round_up(2 * -(-size // 1024), granule)


@search(15)
@given(
    name=st.sampled_from(sorted(ACCELERATORS)),
    kind=st.sampled_from([CONVOLUTION, DEPTHWISE, PartKind.POOLING]),
    kernel=st.builds(Kernel, st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3)),
    output=st.builds(Shape, st.integers(1, 64), st.integers(1, 64), st.integers(1, 200)),
    depth=st.integers(1, 200),
)
def test_blocks_are_of_whole_units_and_fit_with_their_inputs(
    name: str, kind: PartKind, kernel: Kernel, output: Shape, depth: int
) -> None:
    npu = accelerator(name)
    asked = workload(kind, depth if kind is CONVOLUTION else output.channels, output.channels, kernel)
    flat = is_flat(npu, asked, output)
    blocks = fitting_blocks(npu, asked, output, flat=flat)
    available = npu.banks - npu.reserved_output_banks - npu.reserved_end_banks
    for index in range(0, blocks.rows.size, 7):
        block = blocks.output(index)
        assert all(extent % unit == 0 for extent, unit in zip(block, npu.block_unit, strict=True))
        assert all(extent <= largest for extent, largest in zip(block, npu.largest_block, strict=True))
        assert block.channels % 16 == 0 or block.channels == round_up(output.channels, npu.block_unit.channels)
        rows, columns = int(blocks.input_rows[index]), int(blocks.input_columns[index])
        assert rows >= (block.rows - 1) * kernel.stride_y + min(kernel.height, 8)
        assert columns >= (block.columns - 1) * kernel.stride_x + min(kernel.width, 8)
        inputs = rows * columns * round_up(int(blocks.input_channels[index]), 8)
        sums = (1 if flat else block.rows) * block.columns * round_up(block.channels, 8) * 4
        assert banks(inputs, npu.input_granules[0]) + banks(sums, npu.accumulator_granules[0]) <= available


def test_a_table_takes_banks_if_none_are_reserved() -> None:
    plain, table = (
        fitting_blocks(
            accelerator("u55-32"),
            workload(CONVOLUTION, 64, 64, Kernel(3, 3), activation=activation),
            Shape(64, 64, 64),
        )
        for activation in (Activation.NONE, Activation.TABLE)
    )
    assert table.rows.size < plain.rows.size


def test_wider_elements_leave_room_for_fewer_blocks() -> None:
    counts = [
        fitting_blocks(
            accelerator("u55-128"),
            workload(CONVOLUTION, 64, 64, Kernel(3, 3), element_bytes=size),
            Shape(64, 64, 64),
        ).rows.size
        for size in (1, 2, 4)
    ]
    assert counts[0] > counts[2] > 0
    assert counts[0] > counts[1]


def test_a_block_that_fits_nowhere_is_refused_with_the_kernel_and_the_output() -> None:
    asked = workload(DEPTHWISE, 64, 64, Kernel(8, 8, 128, 128))
    sentence = "no block of depthwise fits into the 48 banks of u55-256: kernel 8x8, output 2x2x64"
    with pytest.raises(ValueError, match=sentence):
        fitting_blocks(accelerator("u55-256"), asked, Shape(2, 2, 64))


def test_the_only_block_is_cut_to_smaller_stripes_and_refused_if_it_does_not_fit() -> None:
    asked, npu = workload(CONVOLUTION, 64, 64, Kernel(3, 3)), accelerator("u55-128").with_block("4x8x16")
    for output, expected in ((Shape(64, 64, 64), (4, 8, 16)), (Shape(3, 5, 8), (3, 6, 8))):
        blocks = fitting_blocks(npu, asked, output)
        assert (blocks.rows.size, tuple(blocks.output(0))) == (1, expected)
    with pytest.raises(ValueError, match="no block 32x64x128 of convolution fits into the 24 banks of u55-128"):
        fitting_blocks(npu.with_block("32x64x128"), asked, Shape(64, 64, 64))


@pytest.mark.parametrize(
    ("depth", "size", "expected"),
    [(3, 3, True), (8, 1, True), (32, 3, False), (96, 3, False), (24, 2, True), (64, 1, False), (16, 3, True)],
)
def test_shallow_inputs_go_by_elements_of_the_kernel(depth: int, size: int, expected: bool) -> None:
    assert prefers_part_kernel(workload(CONVOLUTION, depth, 16, Kernel(size, size))) is expected


def test_only_convolutions_go_by_elements_of_the_kernel() -> None:
    assert not prefers_part_kernel(workload(DEPTHWISE, 8, 8, Kernel(3, 3)))


def test_a_single_row_is_held_flat_by_units_of_two() -> None:
    pointwise = workload(CONVOLUTION, 32, 64, Kernel())
    assert is_flat(accelerator("u55-256"), pointwise, Shape(1, 56, 64))
    assert not is_flat(accelerator("u55-256"), pointwise, Shape(2, 56, 64))
    assert not is_flat(accelerator("u55-128"), pointwise, Shape(1, 56, 64))
    assert not is_flat(accelerator("u55-256"), workload(CONVOLUTION, 32, 64, Kernel(3, 3)), Shape(1, 56, 64))


def test_of_blocks_that_hold_all_of_an_input_the_first_small_one_that_covers_most_wins() -> None:
    asked = workload(CONVOLUTION, 16, 16, Kernel())
    output = Shape(4, 4, 16)
    blocks = fitting_blocks(accelerator("u55-64"), asked, output)
    assert blocks.output(fewest_fetches(accelerator("u55-64"), asked, output, blocks)) == output
