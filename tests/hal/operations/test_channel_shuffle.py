from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, open_tensor, output

SHUFFLE = OperationType.CHANNEL_SHUFFLE


def test_groups_divide_the_axis() -> None:
    inputs = [open_tensor(F32, (0, 6)), *integers(3, -1)]
    assert dimensions_of(SHUFFLE, inputs, output(F32)) == ((0, 6),)
    for groups in (0, 4):
        with pytest.raises(HalError, match=f"got {groups} groups, expected a divisor of the 6 elements of axis 1"):
            dimensions_of(SHUFFLE, [open_tensor(F32, (2, 6)), *integers(groups, 1)], output(F32))
