from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, open_tensor, output

TOPK = OperationType.TOPK_V2


def test_both_outputs_have_k_elements_along_the_last_axis() -> None:
    inputs = [open_tensor(F32, (2, 0)), *integers(3)]
    assert dimensions_of(TOPK, inputs, output(F32), output(I32)) == ((2, 3), (2, 3))


@pytest.mark.parametrize("k", [0, -1, 5])
def test_k_lies_within_the_axis(k: int) -> None:
    with pytest.raises(HalError, match=f"k is {k}"):
        dimensions_of(TOPK, [open_tensor(F32, (2, 4)), *integers(k)], output(F32), output(I32))


def test_values_keep_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"output 0 has scale 0.25"):
        dimensions_of(TOPK, [open_tensor(Q8A, (4,), 0.5), *integers(1)], output(Q8A, scale=0.25), output(I32))
