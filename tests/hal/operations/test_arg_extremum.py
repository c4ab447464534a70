from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.operations._types import F32, I32, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import context, dimensions_of, integers, level_of, open_tensor, output, tensor


@pytest.mark.parametrize(
    ("dimensions", "axis", "expected"), [((2, 0, 4), -1, (2, 0)), ((2, 0, 4), 0, (0, 4)), ((5,), 0, (1,))]
)
def test_the_axis_disappears(dimensions: Dimensions, axis: int, expected: Dimensions) -> None:
    inputs = [open_tensor(Q8AS, dimensions, 0.5), *integers(axis)]
    assert level_of(OperationType.ARGMAX, inputs, output(I32, expected)) == 4
    assert dimensions_of(OperationType.ARGMAX, inputs, output(I32)) == (expected,)


def test_no_elements_have_no_extremum() -> None:
    inputs = [tensor(F32, [[], []]), *integers(1)]
    with pytest.raises(HalError, match="axis 1 has no elements"):
        DEFINITIONS[OperationType.ARGMIN].prepare(context(OperationType.ARGMIN, inputs, [output(I32)], executing=True))
