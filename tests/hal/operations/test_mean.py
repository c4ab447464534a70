from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import context, dimensions_of, integers, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
I32 = OperandType.TENSOR_INT32
MEAN = OperationType.MEAN


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ((1,), 0, (2, 0)),
        ((-2, 1), 5, (2, 1, 0)),
        ((1,), -1, (2, 0)),
        ((), 0, (2, 3, 0)),
        ((0, 1, 2), 0, (1,)),
        ((0, 1, 2), 1, (1, 1, 1)),
    ],
)
def test_axes_disappear_unless_they_are_kept(axes: Dimensions, keep: int, expected: Dimensions) -> None:
    inputs = [open_tensor(F32, (2, 3, 0)), tensor(I32, np.array(axes, np.int32)), *integers(keep)]
    assert dimensions_of(MEAN, inputs, output(F32)) == (expected,)


def test_an_axis_out_of_range_is_refused() -> None:
    with pytest.raises(HalError, match="axis 3"):
        dimensions_of(MEAN, [open_tensor(F32, (2, 3, 4)), tensor(I32, [3]), *integers(0)], output(F32))


def test_no_elements_have_no_mean() -> None:
    inputs = [tensor(F32, np.zeros((0, 3))), tensor(I32, [0]), *integers(0)]
    with pytest.raises(HalError, match="no elements"):
        DEFINITIONS[MEAN].prepare(context(MEAN, inputs, [output(F32)], executing=True))
