from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import absent, dimensions_of, level_of, open_tensor, output, tensor

TRANSPOSE = OperationType.TRANSPOSE


def test_the_permutation_may_be_left_out() -> None:
    inputs = [open_tensor(F32, (2, 0, 4)), absent(I32)]
    assert level_of(TRANSPOSE, inputs, output(F32, (4, 3, 2))) == 2
    assert dimensions_of(TRANSPOSE, inputs, output(F32)) == ((4, 0, 2),)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], [-1, 0, 1]])
def test_an_order_that_is_not_a_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(HalError, match="permutation"):
        dimensions_of(TRANSPOSE, [open_tensor(F32, (2, 3, 4)), tensor(I32, order)], output(F32))


def test_the_output_keeps_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(TRANSPOSE, [open_tensor(Q8A, (2, 3), 0.5), tensor(I32, [1, 0])], output(Q8A, scale=0.25))
