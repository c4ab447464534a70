from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.operations._window import SAME, VALID
from nnhal.types import OperandType, OperationType
from tests.support.operations import boolean, context, dimensions_of, integers, level_of, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
MAX = OperationType.MAX_POOL_2D


def test_levels_follow_types_and_layout() -> None:
    def level(code: OperandType, *layout: bool) -> int:
        scale = 0.5 if code in (Q8A, OperandType.TENSOR_QUANT8_ASYMM_SIGNED) else 0.0
        inputs = [open_tensor(code, (1, 4, 4, 1), scale), *integers(SAME, 1, 1, 2, 2, 0), *map(boolean, layout)]
        return level_of(MAX, inputs, output(code, (1, 4, 4, 1), scale))

    assert level(F32) == level(Q8A) == 1
    assert level(F32, False) == level(OperandType.TENSOR_FLOAT16) == 3
    assert level(OperandType.TENSOR_QUANT8_ASYMM_SIGNED) == 4


def test_l2_has_no_quantised_form() -> None:
    with pytest.raises(HalError, match="expected TENSOR_FLOAT16 or TENSOR_FLOAT32"):
        level_of(
            OperationType.L2_POOL_2D,
            [open_tensor(Q8A, (1, 4, 4, 1), 1.0), *integers(SAME, 1, 1, 2, 2, 0)],
            output(Q8A, (1, 4, 4, 1), 1.0),
        )


@pytest.mark.parametrize("count", [5, 8, 11])
def test_other_numbers_of_parameters_are_refused(count: int) -> None:
    with pytest.raises(HalError):
        level_of(MAX, [open_tensor(F32, (1, 4, 4, 1)), *integers(*[1] * count)], output(F32, (1, 4, 4, 1)))


def test_unknown_axes_stay_unknown_and_the_others_are_found() -> None:
    parameters = integers(VALID, 2, 2, 2, 2, 0)
    assert dimensions_of(MAX, [open_tensor(F32, (0, 8, 0, 3)), *parameters], output(F32)) == ((0, 4, 0, 3),)


def test_only_the_batch_may_be_empty_in_an_execution() -> None:
    prepare, parameters = DEFINITIONS[MAX].prepare, integers(VALID, 2, 2, 2, 2, 0)
    empty = context(MAX, [tensor(F32, np.zeros((0, 8, 8, 3))), *parameters], [output(F32)], executing=True)
    assert prepare(empty) == ((0, 4, 4, 3),)
    flat = context(MAX, [tensor(F32, np.zeros((1, 0, 8, 3))), *parameters], [output(F32)], executing=True)
    with pytest.raises(HalError, match="0 x 8"):
        prepare(flat)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ((VALID, 1, 1, 9, 9, 0), "does not fit"),
        ((0, 0, 2, 0, 1, 1, 2, 2, 0), "holds only padding"),
        ((0, 2, 0, 0, 1, 1, 2, 2, 0), "holds only padding"),
    ],
)
def test_windows_without_an_element_are_refused(parameters: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(MAX, [open_tensor(F32, (1, 4, 4, 1)), *integers(*parameters)], output(F32))


def test_the_output_is_quantised_as_the_input() -> None:
    inputs = [open_tensor(Q8A, (1, 4, 4, 1), 0.5, 3), *integers(SAME, 1, 1, 2, 2, 0)]
    with pytest.raises(HalError, match=r"zero point 4, expected 0\.5 and 3"):
        dimensions_of(MAX, inputs, output(Q8A, scale=0.5, zero_point=4))
