from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


@pytest.mark.parametrize("main", [F16, F32])
def test_bases_and_exponents_broadcast(main: OperandType) -> None:
    (result,) = compute(OperationType.POW, [tensor(main, [[4], [-2]]), tensor(main, [2, 0.5, 0])], output(main))
    np.testing.assert_array_equal(result, [[16, 2, 1], [4, np.nan, 1]])
