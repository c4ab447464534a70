from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


@pytest.mark.parametrize(("main", "scale"), [(F16, 0), (F32, 0), (I32, 0), (Q8A, 0.5), (Q8AS, 0.5)])
def test_of_equal_elements_the_last_comes_first(main: OperandType, scale: float) -> None:
    inputs = [tensor(main, [[3, 9, 3, 9], [1, 2, 3, 4]], scale), *integers(3)]
    values, indices = compute(OperationType.TOPK_V2, inputs, output(main, (), scale), output(I32))
    assert values.tolist() == [[9, 9, 3], [4, 3, 2]]
    assert indices.tolist() == [[3, 1, 2], [3, 2, 1]]
