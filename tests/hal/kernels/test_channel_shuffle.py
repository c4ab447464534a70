from __future__ import annotations

import pytest

from nnhal.operations._types import Q8AS
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


@pytest.mark.parametrize("axis", [1, -1])
def test_groups_are_read_across(axis: int) -> None:
    inputs = [tensor(Q8AS, [[0, 1, 2, 3, 4, 5]], 0.5, 1), *integers(3, axis)]
    (result,) = compute(OperationType.CHANNEL_SHUFFLE, inputs, output(Q8AS, (), 0.5, 1))
    assert result.tolist() == [[0, 2, 4, 1, 3, 5]]
