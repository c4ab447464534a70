from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


@pytest.mark.parametrize(("main", "scale"), [(F16, 0), (F32, 0), (I32, 0), (Q8A, 0.5), (Q8AS, 0.5)])
def test_the_first_of_equal_elements_counts(main: OperandType, scale: float) -> None:
    values = tensor(main, [[2, 9, 9], [5, 1, 1]], scale)
    (largest,) = compute(OperationType.ARGMAX, [values, *integers(-1)], output(I32))
    (smallest,) = compute(OperationType.ARGMIN, [values, *integers(1)], output(I32))
    (column,) = compute(OperationType.ARGMAX, [values, *integers(0)], output(I32))
    assert (largest.tolist(), smallest.tolist(), column.tolist()) == ([1, 0], [0, 1], [1, 0, 0])


def test_a_vector_has_one_index() -> None:
    (result,) = compute(OperationType.ARGMIN, [tensor(F32, [3, 1, 2]), *integers(0)], output(I32))
    assert result.tolist() == [1]
