from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output, tensor

REVERSE = OperationType.REVERSE


def test_up_to_8_axes_are_kept() -> None:
    inputs = [open_tensor(F32, (1, 2) * 4), tensor(I32, [7])]
    assert level_of(REVERSE, inputs, output(F32, (1, 2) * 4)) == 7
    assert dimensions_of(REVERSE, inputs, output(F32)) == ((1, 2) * 4,)
    with pytest.raises(HalError, match="rank 9"):
        level_of(REVERSE, [open_tensor(F32, (1,) * 9), tensor(I32, [0])], output(F32))


@pytest.mark.parametrize("axes", [[-1], [2], [0, 1]])
def test_one_axis_is_named_and_not_from_the_end(axes: list[int]) -> None:
    with pytest.raises(HalError, match="expected one axis, 0 to 1"):
        dimensions_of(REVERSE, [open_tensor(F32, (2, 3)), tensor(I32, axes)], output(F32))


def test_the_output_is_like_the_input() -> None:
    inputs = [open_tensor(Q8A, (2, 3), 0.5), tensor(I32, [0])]
    with pytest.raises(HalError, match="expected equal ones"):
        level_of(REVERSE, inputs, output(Q8A, (2, 3), 0.25))
    with pytest.raises(HalError, match=r"\[2, 3\] and \[3, 2\]"):
        level_of(REVERSE, inputs, output(Q8A, (3, 2), 0.5))
