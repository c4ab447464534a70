"""Bytes that a stripe moves."""

from __future__ import annotations

import numpy as np

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartKind
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.blocks import BlockSet
from nnhal_cascade.performance.traffic import (
    StripeTraffic,
    access_cycles,
    block_bursts,
    computed_traffic,
    full_bursts,
)
from nnhal_cascade.performance.workload import PricedStripe, workload_of
from tests.support.cascader_parts import SCALE_BYTES, one_part


def block(output: Shape, read: Shape) -> BlockSet:
    """A set of one."""
    return BlockSet(*(np.array([extent]) for extent in (*output, *read)))


def stripe(
    kind: PartKind,
    read: tuple[int, int, int],
    output: tuple[int, int, int],
    kernel: Kernel,
    *,
    of_network: bool = False,
) -> PricedStripe:
    """A whole tensor as a stripe, with its constants in flash."""
    system = system_for("u55-128")
    graph = one_part(kind, (read,), output, kernel=kernel, of_network=of_network)
    sram, flash = system.region("sram"), system.region("flash")
    constants = flash if graph.parts[0].constants else None
    return PricedStripe(workload_of(graph, graph.parts[0]), Shape(*output), (Shape(*read),), (sram,), sram, constants)


def test_a_convolution_reads_its_input_for_each_block_of_channels_and_its_weights_for_each_of_rows_and_columns() -> (
    None
):
    asked = stripe(PartKind.CONVOLUTION, (16, 16, 32), (16, 16, 64), Kernel())
    traffic = computed_traffic(asked, block(Shape(8, 16, 16), Shape(8, 16, 32)))
    assert traffic.inputs[0].tolist() == [16 * 16 * 32 * 4]
    assert traffic.constants.tolist() == [64 * (2 * 32 + SCALE_BYTES)]
    assert traffic.output == 16 * 16 * 64
    assert traffic.read(asked, 0) == {"sram": 16 * 16 * 32 * 4, "flash": 64 * (2 * 32 + SCALE_BYTES)}
    assert traffic.written(asked) == {"sram": 16 * 16 * 64}


def test_a_depthwise_convolution_reads_each_channel_once_and_the_seams_twice() -> None:
    asked = stripe(PartKind.DEPTHWISE, (18, 16, 32), (16, 16, 32), Kernel(3, 1))
    traffic = computed_traffic(asked, block(Shape(8, 16, 16), Shape(10, 16, 16)))
    assert traffic.inputs[0].tolist() == [2 * 10 * 16 * 32]


def test_a_kernel_that_is_cut_reads_its_input_for_each_piece() -> None:
    whole, cut = (
        computed_traffic(
            stripe(PartKind.POOLING, (8 + rows, 8, 16), (8, 8, 16), Kernel(rows, 1)),
            block(Shape(8, 8, 16), Shape(15, 8, 16)),
        ).inputs[0][0]
        for rows in (8, 9)
    )
    assert cut == 2 * whole


def test_a_row_in_bricks_is_moved_in_whole_bursts_and_a_row_major_one_in_pieces() -> None:
    blocks = block(Shape(8, 16, 16), Shape(8, 16, 16))
    in_bricks, row_major = (
        block_bursts(stripe(PartKind.DEPTHWISE, (8, 16, 32), (8, 16, 32), Kernel(), of_network=each), blocks, cores=1)
        for each in (False, True)
    )
    assert np.all(in_bricks.inputs[0] == 16 * 16)
    assert np.all(in_bricks.output == 16 * 16)
    assert np.all(row_major.inputs[0] == 16)
    assert np.all(row_major.output == 16)


def test_the_busiest_region_decides() -> None:
    asked = stripe(PartKind.CONVOLUTION, (16, 16, 32), (16, 16, 64), Kernel())
    blocks = block(Shape(8, 16, 16), Shape(8, 16, 32))
    bursts = block_bursts(asked, blocks, cores=1)
    by_flash = StripeTraffic((np.array([80]),), np.array([1000]), 80)
    by_sram = StripeTraffic((np.array([8000]),), np.array([1000]), 80)
    assert access_cycles(asked, by_flash, bursts).tolist() == [1000]
    assert access_cycles(asked, by_sram, bursts).tolist() == [(8000 + 80) / 8]


def test_a_short_burst_takes_as_long_as_a_full_one() -> None:
    asked = stripe(PartKind.DEPTHWISE, (8, 16, 32), (8, 16, 32), Kernel(), of_network=True)
    traffic = StripeTraffic((np.array([800]),), np.array([0]), 0)
    blocks = block(Shape(8, 16, 16), Shape(8, 16, 16))
    short, full = (
        access_cycles(asked, traffic, bursts)[0] for bursts in (block_bursts(asked, blocks, 1), full_bursts(asked))
    )
    assert (short, full) == (200, 100)
