from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal_mlip.program.program import (
    ELEMENT_KINDS,
    ROW_KINDS,
    DdrRange,
    DdrTransfer,
    LayerSplit,
    OcmView,
    ProgramStage,
    Strided,
    TaskKind,
    TaskWindow,
    TensorType,
    TileCopy,
    TileTask,
)
from nnhal_mlip.timing.cycles import (
    ROW_PASSES,
    LayerShape,
    TileWork,
    UnitCycles,
    copy_cycles,
    layer_cycles,
    transfer_cycles,
    work_cycles,
    work_of,
)
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_small_program import small_program

PROFILE = read_profile()
FP16, INT8 = TensorType.FP16, TensorType.INT8
CONVOLUTION = LayerShape(TaskKind.CONVOLUTION, FP16, 1, 56, 56, 64, 576)
ROWS, CHANNELS = LayerSplit.ROWS, LayerSplit.CHANNELS


def view(*shape: int, element_type: TensorType = FP16) -> OcmView:
    batch, height, width, channels = shape
    return OcmView(0, (batch, height, width, channels), (0, 0, 0, 0), element_type)


def test_a_convolution_takes_its_blocks_times_its_reduction() -> None:
    units = work_cycles(CONVOLUTION.share(ROWS, 1), PROFILE)
    assert units == UnitCycles(array=196 * 4 * 576, irregular=0, read=196 * 4 * 576 // 2, write=3136 * 64 * 2 // 64)
    assert (units.duration, units.bound) == (196 * 4 * 576, "array")


def test_int8_takes_a_quarter_of_the_array_and_all_reads() -> None:
    units = work_cycles(replace(CONVOLUTION, type=INT8).share(ROWS, 1), PROFILE)
    assert units.array == units.read == 196 * 4 * 144


@pytest.mark.parametrize("element_type, size, least", [(FP16, 2, 8), (INT8, 1, 4)])
def test_a_short_reduction_waits_until_the_results_have_left(element_type: TensorType, size: int, least: int) -> None:
    work = TileWork(TaskKind.CONVOLUTION, element_type, 16, 16, 1, size, size)
    assert work_cycles(work, PROFILE).array == least


def test_a_split_gives_a_tile_its_largest_share() -> None:
    assert CONVOLUTION.share(ROWS, 5)[2:4] == (12 * 56, 64)
    assert CONVOLUTION.share(CHANNELS, 5)[2:4] == (56 * 56, 13)
    assert layer_cycles(CONVOLUTION, ROWS, 8, PROFILE) == 25 * 4 * 576 + 64 + 128


@pytest.mark.parametrize("kind", [TaskKind.DEPTHWISE, TaskKind.MAX_POOL, TaskKind.AVERAGE_POOL])
def test_windows_without_sums_over_channels_are_irregular(kind: TaskKind) -> None:
    shape = LayerShape(kind, FP16, 1, 112, 112, 32, 9)
    assert work_cycles(shape.share(ROWS, 1), PROFILE)[:2] == (0, 112 * 112 * 9)
    assert work_cycles(replace(shape, type=INT8).share(ROWS, 1), PROFILE)[:2] == (0, 112 * 112 * 9 // 2)


def test_sums_and_copies_are_as_fast_as_the_streams() -> None:
    two = LayerShape(TaskKind.SUM, FP16, 1, 8, 8, 64, inputs=2)
    assert work_cycles(two.share(ROWS, 1), PROFILE) == UnitCycles(0, 128, 128, 128)
    assert work_cycles(replace(two, inputs=4).share(ROWS, 1), PROFILE) == UnitCycles(0, 256, 256, 128)
    assert work_cycles(replace(two, kind=TaskKind.COPY, inputs=1).share(ROWS, 1), PROFILE) == UnitCycles(
        0, 128, 64, 128
    )


def test_only_convolutions_have_products() -> None:
    assert CONVOLUTION.macs == 3136 * 64 * 576
    assert replace(CONVOLUTION, kind=TaskKind.DEPTHWISE, reduction=9).macs == 3136 * 64 * 9
    assert replace(CONVOLUTION, kind=TaskKind.MAX_POOL, reduction=9).macs == 0


@pytest.mark.parametrize("element_type", [FP16, INT8])
@pytest.mark.parametrize("kind", TaskKind)
@pytest.mark.parametrize("tiles", [1, 3])
def test_a_task_costs_what_the_share_of_its_layer_does(element_type: TensorType, kind: TaskKind, tiles: int) -> None:
    windowed = kind not in (*ELEMENT_KINDS, TaskKind.MATMUL)
    inputs = 3 if kind is TaskKind.SUM else 1
    reduction = {TaskKind.CONVOLUTION: 9 * 24, TaskKind.MATMUL: 24}.get(kind, 9 if windowed else 1)
    reduction = ROW_PASSES if kind in ROW_KINDS else reduction
    shape = LayerShape(kind, element_type, 2, 13, 7, 40, reduction, inputs)
    rows = -(-13 // tiles)
    task = TileTask(
        0,
        kind,
        (view(2, 15, 9, 24, element_type=element_type),) * (2 if kind is TaskKind.MATMUL else inputs),
        view(2, rows, 7, 40, element_type=element_type),
        window=TaskWindow((3, 3) if windowed else (1, 1)),
    )
    assert work_of(task) == shape.share(ROWS, tiles)


def test_a_transfer_takes_its_start_and_its_bytes_however_many_tiles_receive_them() -> None:
    def load(count: int, tiles: int) -> DdrTransfer:
        pieces = Strided(0, 3, count, count)
        return DdrTransfer(0, 0, False, False, tiles, DdrRange.WEIGHTS, pieces, pieces)

    assert transfer_cycles(load(11, 1), PROFILE) == transfer_cycles(load(11, 255), PROFILE) == 256 + 2


def test_copies_take_the_busiest_stream() -> None:
    def copy(source: int, tiles: int, count: int) -> TileCopy:
        return TileCopy(source, Strided(0, 1, count, count), tiles, Strided(0, 1, count, count))

    def cycles(*copies: TileCopy) -> int:
        return copy_cycles(ProgramStage(0, 0, copies, ()), PROFILE)

    assert cycles() == 0
    assert cycles(copy(0, 0b10, 6400)) == cycles(copy(0, 0b1110, 6400)) == 64 + 100
    assert cycles(copy(0, 0b10, 6400), copy(1, 0b01, 6400)) == 64 + 100
    assert cycles(copy(0, 0b100, 6400), copy(1, 0b100, 6400)) == 64 + 200
    assert cycles(*[copy(0, 1 << tile, 6400) for tile in range(1, 7)]) == 64 + 300


def test_a_stage_of_a_program_copies_its_halos() -> None:
    program, _ = small_program()
    assert [copy_cycles(stage, PROFILE) for stage in program.stages] == [64 + 4, 0]
