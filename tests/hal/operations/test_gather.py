from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, open_tensor, output


def test_the_indices_dimensions_take_the_axis_place() -> None:
    inputs = [open_tensor(F32, (2, 0, 4)), *integers(-2), open_tensor(I32, (5, 6))]
    assert dimensions_of(OperationType.GATHER, inputs, output(F32)) == ((2, 5, 6, 4),)


def test_an_axis_outside_the_tensor_is_refused() -> None:
    inputs = [open_tensor(F32, (2, 3)), *integers(2), open_tensor(I32, (5,))]
    with pytest.raises(HalError, match="axis 2"):
        dimensions_of(OperationType.GATHER, inputs, output(F32))
