from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import dimensions_of, level_of, open_tensor, output


@pytest.mark.parametrize(
    ("code", "main", "level"),
    [
        (OperationType.ABS, F32, 3),
        (OperationType.ABS, I32, 4),
        (OperationType.FLOOR, F32, 1),
        (OperationType.FLOOR, F16, 3),
        (OperationType.HARD_SWISH, Q8A, 4),
        (OperationType.RSQRT, F32, 3),
        (OperationType.RSQRT, Q8A, 7),
    ],
)
def test_types_came_with_their_feature_levels(code: OperationType, main: OperandType, level: int) -> None:
    scale = 0.5 if main == Q8A else 0.0
    assert level_of(code, [open_tensor(main, (2, 3), scale)], output(main, (2, 3), scale)) == level


def test_only_floor_has_a_limit_of_rank() -> None:
    wide = [open_tensor(F32, (1, 2, 1, 2, 1))]
    assert level_of(OperationType.EXP, wide, output(F32, (1, 2, 1, 2, 1))) == 3
    with pytest.raises(HalError, match="rank 5, expected 1 to 4"):
        level_of(OperationType.FLOOR, wide, output(F32))


def test_types_that_a_function_does_not_know_are_refused() -> None:
    with pytest.raises(HalError, match="TENSOR_INT32, expected TENSOR_FLOAT16 or TENSOR_FLOAT32"):
        level_of(OperationType.SIN, [open_tensor(I32, (2,))], output(I32, (2,)))


def test_the_output_has_the_input_s_dimensions_as_far_as_they_are_known() -> None:
    assert dimensions_of(OperationType.NEG, [open_tensor(I32, (2, 0))], output(I32)) == ((2, 0),)


def test_each_tensor_has_its_own_quantisation() -> None:
    inputs = [open_tensor(Q8AS, (2,), 0.5, 1), open_tensor(Q8AS, (1,), 0.25)]
    assert level_of(OperationType.MAXIMUM, inputs, output(Q8AS, (2,), 2.0, 3)) == 4


def test_booleans_have_no_extremum() -> None:
    with pytest.raises(HalError, match="TENSOR_BOOL8, expected"):
        level_of(OperationType.MINIMUM, [open_tensor(B8, (2,)), open_tensor(B8, (2,))], output(F32))


def test_inputs_of_one_type_broadcast_to_booleans() -> None:
    inputs = [open_tensor(I32, (2, 1, 0)), open_tensor(I32, (3, 1))]
    assert level_of(OperationType.LESS, inputs, output(B8, (2, 3, 4))) == 3
    assert dimensions_of(OperationType.LESS, inputs, output(B8)) == ((2, 3, 0),)


def test_signed_quantised_inputs_may_differ_in_quantisation() -> None:
    inputs = [open_tensor(Q8AS, (2,), 0.5, 1), open_tensor(Q8AS, (2,), 0.25, -7)]
    assert level_of(OperationType.EQUAL, inputs, output(B8, (2,))) == 4


def test_mixed_types_and_other_outputs_are_refused() -> None:
    with pytest.raises(HalError, match=r"input 1 \(second\) is TENSOR_QUANT8_ASYMM, expected TENSOR_FLOAT32"):
        level_of(OperationType.GREATER, [open_tensor(F32, (2,)), open_tensor(Q8A, (2,), 1)], output(B8))
    with pytest.raises(HalError, match="output 0 is TENSOR_FLOAT32, expected TENSOR_BOOL8"):
        level_of(OperationType.GREATER, [open_tensor(F32, (2,)), open_tensor(F32, (2,))], output(F32))


@pytest.mark.parametrize("code", [OperationType.LOGICAL_AND, OperationType.LOGICAL_OR])
def test_booleans_broadcast_and_nothing_else_is_taken(code: OperationType) -> None:
    assert dimensions_of(code, [open_tensor(B8, (2, 1)), open_tensor(B8, (3,))], output(B8)) == ((2, 3),)
    with pytest.raises(HalError, match="TENSOR_INT32, expected TENSOR_BOOL8"):
        level_of(code, [open_tensor(I32, (2,)), open_tensor(I32, (2,))], output(B8))


SELECT = OperationType.SELECT


def test_what_is_known_of_three_inputs_is_put_together() -> None:
    inputs = [open_tensor(B8, (0, 3)), open_tensor(F32, ()), open_tensor(F32, (2, 0))]
    assert level_of(SELECT, inputs, output(F32, (2, 3))) == 3
    assert dimensions_of(SELECT, inputs, output(F32)) == ((2, 3),)


@pytest.mark.parametrize("mask", [(1, 3), (3,), (2, 2)])
def test_nothing_broadcasts(mask: Dimensions) -> None:
    with pytest.raises(HalError, match="expected equal dimensions"):
        dimensions_of(SELECT, [open_tensor(B8, mask), *[open_tensor(F32, (2, 3))] * 2], output(F32))


def test_unknown_ranks_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(SELECT, [open_tensor(B8, ()), *[open_tensor(F32, ())] * 2], output(F32))
