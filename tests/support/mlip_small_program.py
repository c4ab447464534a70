"""A small program of the MLIP: a convolution and a pool, by rows on two tiles that hand each other a row."""

from __future__ import annotations

import numpy as np

from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    LayerRecord,
    LayerSplit,
    MlipProgram,
    OcmView,
    ProgramPort,
    ProgramStage,
    Strided,
    TaskKind,
    TaskRange,
    TaskWindow,
    TensorType,
    TileCopy,
    TileTask,
)
from nnhal_mlip.program.sizes import TYPE_BYTES

FLOOR = 0x10000
READ, MIDDLE, WRITTEN = 0x20000, 0x30000, 0x40000
"""Where a tile has its rows of the input, of the convolution and of the output."""
CHANNELS = 16
WEIGHTS = CHANNELS * 3 * 3 * CHANNELS
"""Elements."""


def small_program(element_type: TensorType = TensorType.FP16, *, pinned: bool = False) -> tuple[MlipProgram, bytes]:
    """Return a program whose input is 1 x 8 x 8 x 16 and whose output is 1 x 4 x 4 x 16, and its weights."""
    size = TYPE_BYTES[element_type]
    weight_bytes = WEIGHTS * size + 8 * CHANNELS
    at = 0 if pinned else FLOOR
    row = 8 * CHANNELS * size
    half = 2 * 4 * CHANNELS * size

    def load(layer: int, tiles: int, ddr: DdrRange, start: int, length: int, address: int) -> DdrTransfer:
        at_start = pinned and ddr is DdrRange.WEIGHTS
        pieces = Strided(start, 1, length, length), Strided(address, 1, length, length)
        return DdrTransfer(layer, 0, False, at_start, tiles, ddr, *pieces)

    def store(tile: int) -> DdrTransfer:
        ddr, ocm = Strided(tile * half, 2, half // 2, half // 2), Strided(WRITTEN, 1, half, half)
        return DdrTransfer(1, 2, True, False, 1 << tile, DdrRange.OUTPUTS, ddr, ocm)

    def view(address: int, height: int, width: int) -> OcmView:
        strides = (0, width * CHANNELS * size, CHANNELS * size, size)
        return OcmView(address, (1, height, width, CHANNELS), strides, element_type)

    def convolution(tile: int) -> TileTask:
        shape, strides = (CHANNELS, 3, 3, CHANNELS), (144 * size, 48 * size, 16 * size, size)
        return TileTask(
            tile,
            TaskKind.CONVOLUTION,
            (view(READ, 5, 8),),
            view(MIDDLE, 4, 8),
            OcmView(at, shape, strides, element_type),
            biases=at + WEIGHTS * size,
            factors=at + WEIGHTS * size + 4 * CHANNELS if element_type is TensorType.INT8 else -1,
            window=TaskWindow((3, 3), padding=(1 - tile, 1, tile, 1)),
            range=TaskRange(low=0.0),
            output_scale=0.125,
        )

    def pool(tile: int) -> TileTask:
        factors = (1.0,) if element_type is TensorType.INT8 else ()
        window = TaskWindow((2, 2), (2, 2))
        shapes = (view(MIDDLE, 4, 8),), view(WRITTEN, 2, 4)
        return TileTask(tile, TaskKind.MAX_POOL, *shapes, input_factors=factors, window=window)

    def row_copy(source: int, start: int, target: int) -> TileCopy:
        return TileCopy(source, Strided(start, 1, row, row), 1 << (1 - source), Strided(target, 1, row, row))

    program = MlipProgram(
        name="tvmgen_mrvl_main_0",
        tiles=2,
        batch=1,
        type=element_type,
        pinned=pinned,
        layers=(
            LayerRecord(
                "conv", "Conv2D", ("features/0", "Größe"), 64 * 16 * 144, weight_bytes, LayerSplit.ROWS, 2, 1, False
            ),
            LayerRecord("pool", "Maxpool2D", ("features/1",), 0, 0, LayerSplit.ROWS, 2, 1, False),
        ),
        transfers=(
            load(0, 0b11, DdrRange.WEIGHTS, 0, weight_bytes, at),
            load(0, 0b01, DdrRange.INPUTS, 0, 4 * row, READ),
            load(0, 0b10, DdrRange.INPUTS, 4 * row, 4 * row, READ + row),
            store(0),
            store(1),
        ),
        stages=(
            ProgramStage(
                0,
                3,
                (row_copy(0, READ + 3 * row, READ), row_copy(1, READ + row, READ + 4 * row)),
                (convolution(0), convolution(1)),
            ),
            ProgramStage(1, 3, (), (pool(0), pool(1))),
        ),
        inputs=(ProgramPort("data", (1, 8, 8, 16), "NHWC", element_type, 0.125, 0, 8 * row),),
        outputs=(ProgramPort("result", (1, 4, 4, 16), "NHWC", element_type, 0.125, 0, 2 * half),),
        scratch_bytes=0,
        ocm_weights_bytes=weight_bytes if pinned else 0,
        ocm_scratch_floor=FLOOR,
    )
    return program, np.random.default_rng(1).bytes(weight_bytes)
