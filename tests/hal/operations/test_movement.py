from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import (
    Given,
    absent,
    boolean,
    dimensions_of,
    integers,
    level_of,
    open_tensor,
    output,
    scalar,
    tensor,
)

TRANSPOSE = OperationType.TRANSPOSE


def test_the_permutation_may_be_left_out() -> None:
    inputs = [open_tensor(F32, (2, 0, 4)), absent(I32)]
    assert level_of(TRANSPOSE, inputs, output(F32, (4, 3, 2))) == 2
    assert dimensions_of(TRANSPOSE, inputs, output(F32)) == ((4, 0, 2),)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], [-1, 0, 1]])
def test_an_order_that_is_not_a_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(HalError, match="permutation"):
        dimensions_of(TRANSPOSE, [open_tensor(F32, (2, 3, 4)), tensor(I32, order)], output(F32))


def test_transpose_the_output_keeps_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(TRANSPOSE, [open_tensor(Q8A, (2, 3), 0.5), tensor(I32, [1, 0])], output(Q8A, scale=0.25))


REVERSE = OperationType.REVERSE


def test_up_to_8_axes_are_kept() -> None:
    inputs = [open_tensor(F32, (1, 2) * 4), tensor(I32, [7])]
    assert level_of(REVERSE, inputs, output(F32, (1, 2) * 4)) == 7
    assert dimensions_of(REVERSE, inputs, output(F32)) == ((1, 2) * 4,)
    with pytest.raises(HalError, match="rank 9"):
        level_of(REVERSE, [open_tensor(F32, (1,) * 9), tensor(I32, [0])], output(F32))


@pytest.mark.parametrize("axes", [[-1], [2], [0, 1]])
def test_one_axis_is_named_and_not_from_the_end(axes: list[int]) -> None:
    with pytest.raises(HalError, match="expected one axis, 0 to 1"):
        dimensions_of(REVERSE, [open_tensor(F32, (2, 3)), tensor(I32, axes)], output(F32))


def test_the_output_is_like_the_input() -> None:
    inputs = [open_tensor(Q8A, (2, 3), 0.5), tensor(I32, [0])]
    with pytest.raises(HalError, match="expected equal ones"):
        level_of(REVERSE, inputs, output(Q8A, (2, 3), 0.25))
    with pytest.raises(HalError, match=r"\[2, 3\] and \[3, 2\]"):
        level_of(REVERSE, inputs, output(Q8A, (3, 2), 0.5))


def test_dimensions_are_multiplied() -> None:
    inputs = [open_tensor(F32, (2, 0, 3)), tensor(I32, [3, 2, 0])]
    assert dimensions_of(OperationType.TILE, inputs, output(F32)) == ((6, 0, 0),)


@pytest.mark.parametrize("multiples", [[1], [1, -1]])
def test_multiples_that_do_not_fit_are_refused(multiples: list[int]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(OperationType.TILE, [open_tensor(F32, (2, 3)), tensor(I32, multiples)], output(F32))


F16 = OperandType.TENSOR_FLOAT16
PAD_PADDINGS = tensor(OperandType.TENSOR_INT32, [[1, 2], [0, 3]])


def test_paddings_are_added_to_known_axes() -> None:
    inputs = [open_tensor(F32, (4, 0)), PAD_PADDINGS]
    assert dimensions_of(OperationType.PAD, inputs, output(F32)) == ((7, 0),)


def test_a_zero_point_needs_level_3() -> None:
    for zero_point, level in ((0, 2), (7, 3)):
        out = output(Q8A, (7, 7), 0.5, zero_point)
        assert level_of(OperationType.PAD, [open_tensor(Q8A, (4, 4), 0.5, zero_point), PAD_PADDINGS], out) == level


@pytest.mark.parametrize("paddings", [[[1, 2]], [[1, 2], [0, -1]], [[1, 2, 3], [1, 2, 3]]])
def test_paddings_that_do_not_fit_are_refused(paddings: list[list[int]]) -> None:
    inputs = [open_tensor(F32, (4, 4)), tensor(OperandType.TENSOR_INT32, paddings)]
    with pytest.raises(HalError, match="paddings"):
        dimensions_of(OperationType.PAD, inputs, output(F32))


def test_the_value_has_the_tensor_s_precision() -> None:
    out = output(F16, (7, 7))
    assert (
        level_of(OperationType.PAD_V2, [open_tensor(F16, (4, 4)), PAD_PADDINGS, scalar(OperandType.FLOAT16, 1)], out)
        == 3
    )
    with pytest.raises(HalError, match="FLOAT32, expected FLOAT16"):
        level_of(OperationType.PAD_V2, [open_tensor(F16, (4, 4)), PAD_PADDINGS, scalar(OperandType.FLOAT32, 1)], out)


def test_a_quantised_value_out_of_range_is_refused() -> None:
    inputs = [open_tensor(Q8A, (4, 4), 0.5), PAD_PADDINGS, scalar(OperandType.INT32, 256)]
    with pytest.raises(HalError, match="value is 256, expected 0 to 255"):
        dimensions_of(OperationType.PAD_V2, inputs, output(Q8A, scale=0.5))


MIRROR_PAD = OperationType.MIRROR_PAD


def given(paddings: list[list[int]], mode: int) -> list[Given]:
    return [open_tensor(F32, (4, 3)), tensor(I32, paddings), *integers(mode)]


def test_a_reflection_is_as_long_as_the_axis_at_most_and_without_the_edge_one_less() -> None:
    assert dimensions_of(MIRROR_PAD, given([[3, 0], [0, 2]], 0), output(F32)) == ((7, 5),)
    assert dimensions_of(MIRROR_PAD, given([[4, 4], [0, 3]], 1), output(F32)) == ((12, 6),)
    with pytest.raises(HalError, match=r"\(0, 3\) on axis 1, expected 0 to 2"):
        dimensions_of(MIRROR_PAD, given([[0, 0], [0, 3]], 0), output(F32))


@pytest.mark.parametrize(
    ("paddings", "mode", "message"),
    [
        ([[0, -1], [0, 0]], 1, "on axis 0"),
        ([[0, 0]], 1, "paddings have dimensions"),
        ([[0, 0], [0, 0]], 2, "mode 2"),
    ],
)
def test_other_paddings_and_modes_are_refused(paddings: list[list[int]], mode: int, message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(MIRROR_PAD, given(paddings, mode), output(F32))


def test_the_output_has_the_input_s_rank_and_quantisation() -> None:
    inputs = [open_tensor(Q8A, (4,), 0.5), tensor(I32, [[1, 1]]), *integers(0)]
    assert level_of(MIRROR_PAD, inputs, output(Q8A, (6,), 0.5)) == 7
    with pytest.raises(HalError, match="rank 2, expected 1"):
        level_of(MIRROR_PAD, inputs, output(Q8A, (6, 1), 0.5))
    with pytest.raises(HalError, match="expected equal ones"):
        level_of(MIRROR_PAD, inputs, output(Q8A, (6,), 0.25))


def test_an_unknown_length_that_is_mirrored_stays_unknown() -> None:
    inputs = [open_tensor(F32, (0, 3)), tensor(I32, [[1, 1], [2, 0]]), *integers(0)]
    assert dimensions_of(MIRROR_PAD, inputs, output(F32)) == ((0, 5),)


TO_SPACE, TO_BATCH = OperationType.BATCH_TO_SPACE_ND, OperationType.SPACE_TO_BATCH_ND
BLOCK = tensor(I32, [2, 3])
BATCH_SPACE_PADDINGS = tensor(I32, [[1, 0], [2, 1]])


def test_batches_become_pixels_in_either_layout() -> None:
    inputs = [open_tensor(F32, (12, 1, 0, 5)), BLOCK]
    assert level_of(TO_SPACE, inputs, output(F32, (2, 2, 3, 5))) == 2
    assert dimensions_of(TO_SPACE, inputs, output(F32)) == ((2, 2, 0, 5),)
    first = [open_tensor(F32, (12, 5, 1, 1)), BLOCK, boolean(True)]
    assert level_of(TO_SPACE, first, output(F32, (2, 5, 2, 3))) == 3
    assert dimensions_of(TO_SPACE, first, output(F32)) == ((2, 5, 2, 3),)


def test_padded_pixels_become_batches_in_either_layout() -> None:
    inputs = [open_tensor(F32, (0, 3, 3, 5)), BLOCK, BATCH_SPACE_PADDINGS]
    assert level_of(TO_BATCH, inputs, output(F32, (6, 2, 2, 5))) == 2
    assert dimensions_of(TO_BATCH, inputs, output(F32)) == ((0, 2, 2, 5),)
    first = [open_tensor(F32, (1, 5, 3, 0)), BLOCK, BATCH_SPACE_PADDINGS, boolean(True)]
    assert dimensions_of(TO_BATCH, first, output(F32)) == ((6, 5, 2, 0),)


def test_padding_with_a_zero_point_needs_level_3() -> None:
    inputs = [open_tensor(Q8A, (1, 3, 3, 5), 0.5, 7), BLOCK, BATCH_SPACE_PADDINGS]
    assert level_of(TO_BATCH, inputs, output(Q8A, (6, 2, 2, 5), 0.5, 7)) == 3


def test_blocks_and_paddings_that_do_not_fit_are_refused() -> None:
    images = open_tensor(F32, (4, 3, 3, 5))
    for block, message in (([2, 3], "the batch is 4"), ([2, 0], "block sizes"), ([2], "block sizes")):
        with pytest.raises(HalError, match=message):
            dimensions_of(TO_SPACE, [images, tensor(I32, block)], output(F32))
    for paddings, message in (([[0, 0], [0, 0]], "padded images of 3 x 3"), ([[1, 0], [0, -3]], "two pairs")):
        with pytest.raises(HalError, match=message):
            dimensions_of(TO_BATCH, [images, BLOCK, tensor(I32, paddings)], output(F32))


@pytest.mark.parametrize(
    ("code", "dimensions", "channels_first", "expected"),
    [
        (OperationType.DEPTH_TO_SPACE, (0, 2, 3, 8), False, (0, 4, 6, 2)),
        (OperationType.DEPTH_TO_SPACE, (1, 8, 2, 3), True, (1, 2, 4, 6)),
        (OperationType.SPACE_TO_DEPTH, (1, 4, 0, 2), False, (1, 2, 0, 8)),
        (OperationType.SPACE_TO_DEPTH, (1, 2, 4, 6), True, (1, 8, 2, 3)),
    ],
)
def test_blocks_of_2_in_either_layout(
    code: OperationType, dimensions: Dimensions, channels_first: bool, expected: Dimensions
) -> None:
    inputs = [open_tensor(F32, dimensions), *integers(2), boolean(channels_first)]
    assert level_of(code, inputs, output(F32, expected)) == 3
    assert level_of(code, inputs[:2], output(F32, expected)) == 1
    assert dimensions_of(code, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("code", [OperationType.DEPTH_TO_SPACE, OperationType.SPACE_TO_DEPTH])
def test_blocks_that_do_not_fit_are_refused(code: OperationType) -> None:
    for block in (0, 3):
        with pytest.raises(HalError, match=f"block size {block}|multiple"):
            dimensions_of(code, [open_tensor(F32, (1, 4, 4, 8)), *integers(block)], output(F32))


def test_depth_space_the_output_keeps_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(
            OperationType.DEPTH_TO_SPACE, [open_tensor(Q8A, (1, 1, 1, 4), 0.5), *integers(2)], output(Q8A, (), 0.25)
        )


SHUFFLE = OperationType.CHANNEL_SHUFFLE


def test_groups_divide_the_axis() -> None:
    inputs = [open_tensor(F32, (0, 6)), *integers(3, -1)]
    assert dimensions_of(SHUFFLE, inputs, output(F32)) == ((0, 6),)
    for groups in (0, 4):
        with pytest.raises(HalError, match=f"got {groups} groups, expected a divisor of the 6 elements of axis 1"):
            dimensions_of(SHUFFLE, [open_tensor(F32, (2, 6)), *integers(groups, 1)], output(F32))
