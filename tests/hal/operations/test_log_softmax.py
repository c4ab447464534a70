from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, FLOAT32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output, scalar

LOG_SOFTMAX = OperationType.LOG_SOFTMAX


def test_beta_and_axis_are_always_given() -> None:
    inputs = [open_tensor(F32, (2, 0, 3, 1, 5)), scalar(FLOAT32, 1), *integers(-5)]
    assert level_of(LOG_SOFTMAX, inputs, output(F32, (2, 4, 3, 1, 5))) == 3
    assert dimensions_of(LOG_SOFTMAX, inputs, output(F32)) == ((2, 0, 3, 1, 5),)
    with pytest.raises(HalError, match="got 2 inputs, expected 3"):
        level_of(LOG_SOFTMAX, inputs[:2], output(F32))
    with pytest.raises(HalError, match="axis 5"):
        dimensions_of(LOG_SOFTMAX, [*inputs[:2], *integers(5)], output(F32))
