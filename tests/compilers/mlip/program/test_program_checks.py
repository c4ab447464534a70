from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    MlipProgram,
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
from nnhal_mlip.program.program_checks import check_program
from tests.support.mlip_small_program import FLOOR, READ, small_program

PINNED, WEIGHTS = small_program(pinned=True)
PLAIN, _ = small_program()
INT8, INT8_WEIGHTS = small_program(TensorType.INT8)
LOAD, STORE = PLAIN.transfers[1], PLAIN.transfers[3]
COPY = PLAIN.stages[0].copies[0]
CONVOLUTION, POOL = PLAIN.stages[0].tasks[0], PLAIN.stages[1].tasks[0]
END = 1 << 20


def with_transfer(index: int, **changes: Any) -> MlipProgram:
    transfers: list[DdrTransfer] = list(PLAIN.transfers)
    transfers[index] = replace(transfers[index], **changes)
    return replace(PLAIN, transfers=tuple(transfers))


def with_stage(**changes: Any) -> MlipProgram:
    return replace(PLAIN, stages=(replace(PLAIN.stages[0], **changes), PLAIN.stages[1]))


def with_copy(**changes: Any) -> MlipProgram:
    return with_stage(copies=(replace(COPY, **changes),))


def with_task(task: TileTask, **changes: Any) -> MlipProgram:
    return with_stage(tasks=(replace(task, **changes),))


def with_port(**changes: Any) -> MlipProgram:
    port: ProgramPort = replace(PLAIN.inputs[0], **changes)
    return replace(PLAIN, inputs=(port,))


def window(**changes: Any) -> TaskWindow:
    return CONVOLUTION.window._replace(**changes)


WRONG: dict[str, tuple[Callable[[], MlipProgram], str]] = {
    "tiles": (lambda: replace(PLAIN, tiles=9), "tiles of the program is 9, expected 1 to 8"),
    "type": (lambda: replace(PLAIN, type=TensorType.FP32), "type is FP32, expected FP16 or INT8"),
    "floor": (lambda: replace(PLAIN, ocm_scratch_floor=END + 1), "ocm_scratch_floor is 1048577"),
    "weights above the floor": (lambda: replace(PLAIN, ocm_weights_bytes=FLOOR + 1), "ocm_weights_bytes is 65537"),
    "huge scratch": (lambda: replace(PLAIN, scratch_bytes=1 << 50), "scratch_bytes is 1125899906842624"),
    "batch": (lambda: replace(PLAIN, batch=0), "batch of the program is 0, expected 1 to 256"),
    "no outputs": (lambda: replace(PLAIN, outputs=()), "number of outputs is 0, expected 1 to 32"),
    "rank": (lambda: with_port(shape=(1, 1, 8, 8, 16)), r"rank of input 0 \(data\) is 5, expected 0 to 4"),
    "bytes": (lambda: with_port(bytes=2047), r"bytes of input 0 \(data\) is 2047, expected 2048"),
    "extent": (lambda: with_port(shape=(0, 8, 8, 16)), r"shape of input 0 \(data\)"),
    "scale": (lambda: with_port(scale=float("nan")), r"scale of input 0 \(data\) is nan"),
    "layout": (lambda: with_port(layout="CHWN"), r"layout of input 0 \(data\) is 'CHWN', expected one of 'NCHW'"),
    "overlap": (
        lambda: replace(PLAIN, outputs=(*PLAIN.outputs, replace(PLAIN.outputs[0], name="b", offset=256))),
        r"offset of output 1 \(b\) is 256, expected 512 to",
    ),
    "layer": (lambda: with_transfer(1, layer=2), "layer of transfer 1 is 2, expected 0 to 1"),
    "after_stage": (lambda: with_transfer(3, after_stage=3), "after_stage of transfer 3 is 3, expected 0 to 2"),
    "mask": (lambda: with_transfer(1, tiles=0b100), "tiles of transfer 1 is 0b100"),
    "no tile": (lambda: with_transfer(1, tiles=0), "tiles of transfer 1 is 0b0"),
    "two stores": (lambda: with_transfer(3, tiles=0b11), "tiles of transfer 3 is 0b11, expected one tile"),
    "range of a load": (
        lambda: with_transfer(1, ddr=DdrRange.OUTPUTS, ddr_bytes=Strided(0, 1, 1, 1), ocm_bytes=Strided(READ, 1, 1, 1)),
        "range of transfer 1 is OUTPUTS, expected WEIGHTS, INPUTS or SCRATCH",
    ),
    "range of a store": (lambda: with_transfer(3, ddr=DdrRange.INPUTS), "range of transfer 3 is INPUTS, expected OUT"),
    "beyond DDR": (
        lambda: with_transfer(2, ddr_bytes=LOAD.ddr_bytes._replace(start=1025)),
        r"DDR bytes of transfer 2 \(INPUTS\) is 1025 to 2049, expected within 0 to 2048",
    ),
    "beyond OCM": (
        lambda: with_transfer(1, ocm_bytes=LOAD.ocm_bytes._replace(start=END - 1)),
        "OCM bytes of transfer 1 is 1048575 to 1049599, expected within 65536 to 1048576",
    ),
    "below the floor": (
        lambda: with_transfer(1, ocm_bytes=LOAD.ocm_bytes._replace(start=0)),
        "OCM bytes of transfer 1 is 0 to 1024, expected within 65536",
    ),
    "fewer bytes": (
        lambda: with_transfer(1, ocm_bytes=Strided(READ, 1, 8, 8)),
        "bytes of transfer 1 is 8, expected 1024",
    ),
    "overlapping pieces": (
        lambda: with_transfer(1, ocm_bytes=Strided(READ, 2, 512, 511)),
        "OCM bytes of transfer 1 is .* expected pieces that do not overlap",
    ),
    "no pieces": (lambda: with_transfer(1, ddr_bytes=Strided(0, 0, 1024, 0)), "expected at least one piece"),
    "late start": (
        lambda: replace(PINNED, transfers=(PINNED.transfers[1], PINNED.transfers[0], *PINNED.transfers[2:])),
        "transfer 1 is at start, expected one of a run",
    ),
    "start of an input": (lambda: replace(PINNED, transfers=(replace(LOAD, at_start=True),)), "a load of weights"),
    "start above the weights": (
        lambda: replace(PINNED, ocm_weights_bytes=4000),
        "OCM bytes of transfer 0 is 0 to 4736, expected within 0 to 4000",
    ),
    "after_transfers": (lambda: with_stage(after_transfers=6), "after_transfers of stage 0 is 6, expected 0 to 5"),
    "deadlock": (lambda: with_stage(after_transfers=4), "transfer 3 is after 2 stages, expected after fewer"),
    "source tile": (lambda: with_copy(source=2), "source of copy 0 of stage 0 is 2, expected 0 to 1"),
    "target tiles": (lambda: with_copy(tiles=0b100), "tiles of copy 0 of stage 0"),
    "copied source": (
        lambda: with_copy(source_bytes=Strided(END - 100, 1, 256, 256)),
        "source bytes of copy 0 of stage 0 is 1048476 to 1048732",
    ),
    "copied target": (
        lambda: with_copy(target_bytes=Strided(0, 1, 256, 256)),
        "target bytes of copy 0 of stage 0 is 0 to 256, expected within 65536",
    ),
    "tile": (lambda: with_task(POOL, tile=2), r"tile of task 0 of stage 0 \(conv\) is 2, expected 0 to 1"),
    "view": (
        lambda: with_task(POOL, inputs=(POOL.inputs[0]._replace(address=END - 10),)),
        r"input 0 of task 0 of stage 0 \(conv\) is 1048566 to 1049590",
    ),
    "negative stride": (
        lambda: with_task(POOL, inputs=(POOL.inputs[0]._replace(strides=(0, -256, 32, 2)),)),
        "strides of at least 0",
    ),
    "huge repeated view": (
        lambda: with_task(POOL, inputs=(POOL.inputs[0]._replace(shape=(1 << 40, 4, 8, 16)),)),
        "elements of input 0 of task 0",
    ),
    "output below the floor": (
        lambda: with_task(POOL, output=POOL.output._replace(address=FLOOR - 2)),
        "output of task 0 of stage 0 .conv. is 65534 to 65790, expected within 65536",
    ),
    "overlapping output": (
        lambda: with_task(POOL, output=POOL.output._replace(strides=(0, 128, 32, 1))),
        "expected elements that do not overlap",
    ),
    "repeated output": (
        lambda: with_task(POOL, output=POOL.output._replace(strides=(0, 0, 32, 2))),
        "expected elements that do not overlap",
    ),
    "output height": (
        lambda: with_task(CONVOLUTION, window=window(padding=(0, 1, 0, 1))),
        "height of the output of task 0 of stage 0 .conv. is 4, expected 3 of its window",
    ),
    "output width": (
        lambda: with_task(CONVOLUTION, window=window(strides=(1, 2))),
        "width of the output of task 0 of stage 0 .conv. is 8, expected 4",
    ),
    "empty window": (
        lambda: with_task(CONVOLUTION, window=window(strides=(0, 1))),
        "a kernel, strides and dilation of at least 1",
    ),
    "kernel of other weights": (
        lambda: with_task(CONVOLUTION, window=window(kernel=(1, 1))),
        r"weights of task 0 of stage 0 .conv. is \(16, 3, 3, 16\), expected \(16, 1, 1, 16\)",
    ),
    "no weights": (lambda: with_task(CONVOLUTION, weights=None), "weights of task 0 of stage 0 .conv. is missing"),
    "weights of a pool": (lambda: with_task(POOL, weights=CONVOLUTION.weights), "expected none, since it is MAX_POOL"),
    "channels of a depthwise": (
        lambda: with_task(CONVOLUTION, kind=TaskKind.DEPTHWISE),
        r"weights of .* expected \(1, 3, 3, 16\)",
    ),
    "channels of a pool": (
        lambda: with_task(POOL, output=POOL.output._replace(shape=(1, 2, 4, 8))),
        "channels of the output of task 0 .* is 8, expected 16",
    ),
    "padding of a pool": (
        lambda: with_task(
            POOL,
            window=TaskWindow((2, 2), (2, 2), padding=(2, 0, 0, 0)),
            output=POOL.output._replace(shape=(1, 3, 4, 16)),
        ),
        "padding of task 0 .* expected less, so that every window has an element",
    ),
    "padding between the taps of a pool": (
        lambda: with_task(
            POOL,
            inputs=(POOL.inputs[0]._replace(shape=(1, 1, 8, 16)),),
            window=TaskWindow((2, 2), (1, 2), (2, 1), (1, 0, 1, 0)),
            output=POOL.output._replace(shape=(1, 1, 4, 16)),
        ),
        "so that every window has an element",
    ),
    "huge padding": (
        lambda: with_task(CONVOLUTION, window=window(padding=(1 << 40, 1, 1, 1), strides=((1 << 40) // 3, 1))),
        "elements of the padded input of task 0",
    ),
    "two inputs": (lambda: with_task(POOL, inputs=POOL.inputs * 2), "number of inputs of task 0 .* is 2, expected 1"),
    "no inputs": (
        lambda: with_task(POOL, kind=TaskKind.SUM, inputs=(), window=TaskWindow()),
        "number of inputs of task 0 .* is 0, expected at least 1",
    ),
    "shape of a sum": (
        lambda: with_task(POOL, kind=TaskKind.SUM, window=TaskWindow()),
        r"input 0 of task 0 .* is \(1, 4, 8, 16\), expected the output's shape",
    ),
    "one matrix": (
        lambda: with_task(POOL, kind=TaskKind.MATMUL, window=TaskWindow()),
        "number of inputs of task 0 .* is 1, expected 2, since it is MATMUL",
    ),
    "images as matrices": (
        lambda: with_task(POOL, kind=TaskKind.MATMUL, inputs=POOL.inputs * 2, window=TaskWindow()),
        r"input 0 of task 0 .* is \(1, 4, 8, 16\), expected one matrix of 16 columns",
    ),
    "normalization without a root": (
        lambda: with_task(POOL, kind=TaskKind.NORMALIZATION, inputs=(POOL.output,), window=TaskWindow()),
        "table of task 0 .* is NONE, expected RSQRT for NORMALIZATION, and only then",
    ),
    "window of a copy": (
        lambda: with_task(POOL, kind=TaskKind.COPY, inputs=(POOL.output,)),
        "window of task 0 .* expected none, since it is COPY",
    ),
    "input type": (
        lambda: with_task(CONVOLUTION, inputs=(CONVOLUTION.inputs[0]._replace(type=TensorType.INT8),)),
        "type of the input of task 0 .* is INT8, expected FP16",
    ),
    "biases": (lambda: with_task(CONVOLUTION, biases=END - 63), "biases of task 0 .* is 1048513, expected -1, or"),
    "biases of a pool": (lambda: with_task(POOL, biases=READ), "biases of task 0 .* expected -1, since it is MAX_POOL"),
    "factors in fp16": (lambda: with_task(CONVOLUTION, factors=READ), "factors of task 0 .* expected -1"),
    "input factors in fp16": (lambda: with_task(POOL, input_factors=(1.0,)), "expected 0 finite numbers"),
    "output scale": (lambda: with_task(POOL, output_scale=0.0), "output scale of task 0 .* is 0.0"),
    "range": (lambda: with_task(POOL, range=TaskRange(1.0, 0.0)), r"range of task 0 .* is \(1.0, 0.0\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_run_is_refused_with_its_place(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(ProgramError, match=message):
        check_program(make(), len(WEIGHTS))


@pytest.mark.parametrize("program, count", [(PLAIN, len(WEIGHTS)), (PINNED, len(WEIGHTS)), (INT8, len(INT8_WEIGHTS))])
def test_a_program_that_can_run_is_accepted(program: MlipProgram, count: int) -> None:
    check_program(program, count)


def test_int8_wants_factors() -> None:
    first, second = INT8.stages
    bare = replace(first, tasks=(replace(first.tasks[0], factors=-1),))
    with pytest.raises(ProgramError, match=r"factors of task 0 of stage 0 .* is -1, expected an address"):
        check_program(replace(INT8, stages=(bare, second)), len(INT8_WEIGHTS))
    bare = replace(second, tasks=(replace(second.tasks[0], input_factors=()),))
    with pytest.raises(ProgramError, match=r"input factors of task 0 of stage 1 .* expected 1 finite numbers"):
        check_program(replace(INT8, stages=(first, bare)), len(INT8_WEIGHTS))


def test_a_repeated_input_and_an_interleaved_output_are_accepted() -> None:
    whole = POOL.output
    repeated = whole._replace(strides=(0, 0, 0, 2))
    interleaved = whole._replace(strides=(0, 512, 128, 4))
    task = replace(POOL, kind=TaskKind.SUM, inputs=(whole, repeated), output=interleaved, window=TaskWindow())
    check_program(with_stage(tasks=(task,)), len(WEIGHTS))


def test_stages_without_tasks_and_copies_to_the_same_tile_are_accepted() -> None:
    own = TileCopy(0, Strided(READ, 4, 64, 64), 0b01, Strided(READ + 4096, 2, 128, 256))
    check_program(replace(PLAIN, stages=(ProgramStage(0, 3, (own,), ()), *PLAIN.stages)), len(WEIGHTS))


def test_stores_wait_for_stages_that_wait_for_earlier_transfers() -> None:
    late = replace(STORE, after_stage=1)
    check_program(replace(PLAIN, transfers=(*PLAIN.transfers[:3], late, PLAIN.transfers[4])), len(WEIGHTS))
