"""Programs that read what they should not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    OcmView,
    TaskKind,
    TaskWindow,
    TileCopy,
    TileTask,
)
from nnhal_mlip.simulator.errors import StaleBytesError
from nnhal_mlip.simulator.provenance import check_provenance
from tests.support.mlip_by_hand import HandMade, whole

SHAPE = (1, 4, 4, 8)
FILTERS: Array = np.ones((8, 1, 1, 8), np.float16)


def copy(source: OcmView, target: OcmView, tile: int = 0) -> TileTask:
    return TileTask(tile, TaskKind.COPY, (source,), target)


def convolution(source: OcmView, target: OcmView, weights: OcmView) -> TileTask:
    return TileTask(0, TaskKind.CONVOLUTION, (source,), target, weights)


def rows(view: OcmView, first: int, count: int) -> OcmView:
    return view._replace(address=view.address + first * view.strides[1], shape=(1, count, *view.shape[2:]))


def refused(made: HandMade, words: str) -> None:
    with pytest.raises(StaleBytesError, match=words):
        check_provenance(made.program())


def test_a_sound_chain_passes() -> None:
    made = HandMade(np.float16, tiles=2)
    view, weights = made.input(SHAPE), made.filters(FILTERS)
    first, second = made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(convolution(view, first, weights))
    # The second layer's output replaces its own input and the weights, which are dead.
    made.stage(copy(first, second))
    made.stage(copy(second, view), copies=(TileCopy(0, whole(view.address, 64), 2, whole(view.address, 64)),))
    made.store(view)
    check_provenance(made.program())


def test_what_was_never_written_is_found() -> None:
    made = HandMade(np.float16)
    view, result = made.input(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view._replace(address=view.address + 8), result))
    made.store(result)
    refused(made, r"task 0 of stage 0 of layer_0 \(conv0\) on tile 0 reads is nothing in 8 bytes, expected something")


def test_rows_that_no_window_reaches_may_hold_anything() -> None:
    made = HandMade(np.float16)
    view = made.input((1, 3, 4, 8))
    result = made.tensor((1, 2, 2, 8))
    taller = view._replace(shape=(1, 4, 4, 8))
    window = TaskWindow((1, 1), (2, 2))
    made.stage(TileTask(0, TaskKind.MAX_POOL, (taller,), result, window=window))
    made.store(result)
    check_provenance(made.program())
    made.stages[0] = replace(
        made.stages[0], tasks=(replace(made.stages[0].tasks[0], window=TaskWindow((2, 2), (2, 2))),)
    )
    refused(made, "nothing in 64 bytes")


def test_weights_that_were_overwritten_are_found() -> None:
    made = HandMade(np.float16)
    view, weights, result = made.input(SHAPE), made.filters(FILTERS, layer=1), made.tensor(SHAPE)
    made.stage(copy(view, rows(weights._replace(shape=SHAPE, strides=view.strides), 0, 4)))
    made.stage(convolution(view, result, weights))
    made.store(result)
    refused(made, "layer_1 .* the output of layer_0 in 128 bytes, expected weights: the constants of layer_1")


def test_inputs_that_weights_have_overwritten_are_found() -> None:
    made = HandMade(np.float16)
    view, first, second = made.input(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, first))
    weights = made.filters(FILTERS, layer=1)
    made.transfers[-1] = replace(made.transfers[-1], ocm_bytes=whole(first.address + 128, 128))
    made.stage(convolution(first, second, weights._replace(address=first.address + 128)))
    made.store(second)
    refused(made, "layer_1 .* the constants of layer_1 in 128 bytes, expected the output of layer_0")


def test_a_part_that_another_layer_has_overwritten_is_found() -> None:
    made = HandMade(np.float16)
    view, first, second, third = made.input(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, first))
    made.stage(copy(rows(view, 0, 1), rows(first, 3, 1)))
    made.stage(copy(first, second))
    made.stage(copy(second, third))
    made.store(third)
    refused(made, "layer_2 .* the output of layer_1 in 64 bytes, expected the output of layer_0")


def test_an_output_that_another_layer_has_replaced_is_found_if_the_record_says_what_was_wanted() -> None:
    made = HandMade(np.float16)
    view, first, second = made.input(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, first))
    made.stage(copy(view, first))
    made.stage(copy(first, second))
    made.store(second)
    check_provenance(made.program())
    made.layers[1] = replace(made.layers[1], origins=(-1,))
    made.layers[2] = replace(made.layers[2], origins=(1,))
    check_provenance(made.program())
    made.layers[2] = replace(made.layers[2], origins=(0,))
    refused(made, "layer_2 .* the output of layer_1 in 256 bytes, expected an input: .* or the output of layer_0")


def test_layers_that_share_a_tensor_pass() -> None:
    made = HandMade(np.float16)
    view, both, result = made.input(SHAPE), made.tensor((1, 4, 4, 16)), made.tensor((1, 4, 4, 16))
    for start in (0, 16):
        half = both._replace(address=both.address + start, shape=SHAPE)
        made.stage(copy(view, half))
    made.stage(copy(both, result))
    made.store(result)
    check_provenance(made.program())


def test_a_load_that_does_not_wait_for_the_readers_is_found() -> None:
    made = HandMade(np.float16)
    view, first, second = made.input(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, first))
    made.load(DdrRange.INPUTS, 0, 256, view.address)
    made.stage(copy(view, second))
    made.store(first)
    check_provenance(made.program())
    made.transfers[1] = replace(made.transfers[1], after_stage=0)
    refused(made, "task 0 of stage 0 of layer_0 .* reads is written before or after it")


def test_a_store_that_does_not_wait_for_the_writer_is_found() -> None:
    made = HandMade(np.float16)
    view, result = made.input(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, result))
    made.stage(copy(rows(view, 1, 1), rows(result, 0, 1)), layer=0)
    made.store(result)
    check_provenance(made.program())
    made.transfers[1] = replace(made.transfers[1], after_stage=1)
    refused(made, "transfer 1 of layer_0 .*, which stores from tile 0, reads is written before or after it")


def test_what_comes_back_from_ddr_is_what_was_spilled() -> None:
    made = HandMade(np.float16)
    view, first, second = made.input(SHAPE), made.tensor(SHAPE), made.tensor(SHAPE)
    made.stage(copy(view, first))
    spans = whole(0, 256), whole(first.address, 256)
    made.transfers.append(DdrTransfer(0, 1, True, False, 1, DdrRange.SCRATCH, *spans))
    made.transfers.append(DdrTransfer(1, 1, False, False, 1, DdrRange.SCRATCH, *spans))
    made.stage(copy(first, second))
    made.store(second)
    program = replace(made.program(), scratch_bytes=320)
    check_provenance(program)
    elsewhere = replace(program.transfers[2], ddr_bytes=whole(64, 256))
    with pytest.raises(StaleBytesError, match="nothing in 64 bytes"):
        check_provenance(replace(program, transfers=(*program.transfers[:2], elsewhere, program.transfers[3])))


def test_copies_of_a_stage_must_not_depend_on_each_other() -> None:
    made = HandMade(np.float16, tiles=3)
    view, result = made.input(SHAPE), made.tensor(SHAPE)
    made.stage(
        copy(view, result),
        copies=(
            TileCopy(0, whole(view.address, 64), 2, whole(result.address, 64)),
            TileCopy(1, whole(result.address, 64), 4, whole(result.address, 64)),
        ),
    )
    made.store(result)
    refused(made, "copy 1 of stage 0 .* from tile 1 reads is written by another copy")
