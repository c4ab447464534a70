from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import context, dimensions_of, integers, level_of, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
CONCATENATION = OperationType.CONCATENATION


def joined(axis: int, *tensors: Dimensions) -> Dimensions:
    inputs = [*(open_tensor(F32, dimensions) for dimensions in tensors), *integers(axis)]
    return dimensions_of(CONCATENATION, inputs, output(F32))[0]


def test_lengths_along_the_axis_add_up() -> None:
    assert joined(1, (2, 3), (2, 4), (2, 5)) == (2, 12)


def test_what_one_tensor_leaves_open_another_may_know() -> None:
    assert joined(1, (0, 3), (2, 4)) == (2, 7)
    assert joined(1, (2, 0), (2, 4)) == (2, 0)


@pytest.mark.parametrize(("axis", "second"), [(1, (3, 4)), (2, (2, 3)), (-1, (2, 3)), (0, (2, 3, 1))])
def test_tensors_that_do_not_join_are_refused(axis: int, second: Dimensions) -> None:
    with pytest.raises(HalError):
        joined(axis, (2, 3), second)


def test_an_empty_tensor_adds_nothing() -> None:
    inputs = [tensor(F32, np.zeros((0, 3))), tensor(F32, np.zeros((2, 3))), *integers(0)]
    op = context(CONCATENATION, inputs, [output(F32)], executing=True)
    assert DEFINITIONS[CONCATENATION].prepare(op) == ((2, 3),)


def test_other_quantisation_than_the_output_s_needs_level_3() -> None:
    out = output(Q8A, (4,), 0.5)
    same, other = open_tensor(Q8A, (2,), 0.5), open_tensor(Q8A, (2,), 0.25)
    assert level_of(CONCATENATION, [same, same, *integers(0)], out) == 1
    assert level_of(CONCATENATION, [same, other, *integers(0)], out) == 3


def test_a_tensor_and_an_axis_are_the_least() -> None:
    assert level_of(CONCATENATION, [open_tensor(F32, (2,)), *integers(0)], output(F32, (2,))) == 1
    with pytest.raises(HalError, match="at least 2"):
        level_of(CONCATENATION, integers(0), output(F32, (2,)))
