from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import dimensions_of, integers, open_tensor, output


@pytest.mark.parametrize(
    ("axis", "expected"), [(0, (1, 2, 0)), (2, (2, 0, 1)), (-1, (2, 0, 1)), (-2, (2, 1, 0)), (-3, (1, 2, 0))]
)
def test_the_axis_counts_in_the_output(axis: int, expected: Dimensions) -> None:
    inputs = [open_tensor(F32, (2, 0)), *integers(axis)]
    assert dimensions_of(OperationType.EXPAND_DIMS, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_outside_the_output_is_refused(axis: int) -> None:
    with pytest.raises(HalError, match=f"axis {axis}, expected -3 to 2"):
        dimensions_of(OperationType.EXPAND_DIMS, [open_tensor(F32, (2, 3)), *integers(axis)], output(F32))
