from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import context, dimensions_of, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
RESHAPE = OperationType.RESHAPE


def reshaped(given: Dimensions, shape: Dimensions) -> Dimensions:
    inputs = [open_tensor(F32, given), tensor(OperandType.TENSOR_INT32, shape)]
    return dimensions_of(RESHAPE, inputs, output(F32))[0]


def test_one_dimension_may_be_computed() -> None:
    assert reshaped((2, 6), (3, -1)) == (3, 4)
    assert reshaped((2, 6), (12,)) == (12,)


def test_what_is_left_of_an_unknown_input_is_unknown() -> None:
    assert reshaped((0, 6), (3, -1)) == (3, 0)


@pytest.mark.parametrize("shape", [(-1, -1), (5, -1), (3, 5), (-2, 6)])
def test_shapes_that_do_not_fit_are_refused(shape: Dimensions) -> None:
    with pytest.raises(HalError, match="shape"):
        reshaped((2, 6), shape)


def test_an_empty_input_keeps_no_elements() -> None:
    inputs = [tensor(F32, np.zeros((0, 6))), tensor(OperandType.TENSOR_INT32, (-1, 3, 2))]
    op = context(RESHAPE, inputs, [output(F32)], executing=True)
    assert DEFINITIONS[RESHAPE].prepare(op) == ((0, 3, 2),)
