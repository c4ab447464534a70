from __future__ import annotations

from nnhal.operations._types import B8, I32, Q8A
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

MASK = tensor(B8, [0, 1, 9])


def test_the_mask_decides_element_by_element() -> None:
    large = 2**24 + 1
    inputs = [MASK, tensor(I32, [large, large, large]), tensor(I32, [-large, -large, -large])]
    (result,) = compute(OperationType.SELECT, inputs, output(I32))
    assert result.tolist() == [-large, large, large]


def test_what_is_quantised_in_another_way_is_requantised() -> None:
    inputs = [MASK, tensor(Q8A, [10, 20, 200], 0.5), tensor(Q8A, [10, 20, 30], 0.25, 6)]
    (result,) = compute(OperationType.SELECT, inputs, output(Q8A, (), 0.25, 6))
    assert result.tolist() == [10, 46, 255]
