from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import Q8AS
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tensors_lie_side_by_side(axis: int) -> None:
    first = np.arange(6).reshape(2, 3)
    inputs = [*integers(axis), *(tensor(Q8AS, part, 0.5, 1) for part in (first, -first))]
    (result,) = compute(OperationType.PACK, inputs, output(Q8AS, (), 0.5, 1))
    np.testing.assert_array_equal(result, np.stack([first, -first], axis))
