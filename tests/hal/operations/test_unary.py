from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A
from nnhal.types import OperandType, OperationType
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
