from __future__ import annotations

import numpy as np

from nnhal.operations._types import B8, INT32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def test_axes_are_counted_even_where_they_are_empty() -> None:
    (result,) = compute(OperationType.RANK, [tensor(B8, np.zeros((2, 0, 1)))], output(INT32))
    assert (result.shape, int(result)) == ((), 3)
