from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output

PACK = OperationType.PACK


@pytest.mark.parametrize(("axis", "expected"), [(0, (2, 3, 4)), (1, (3, 2, 4)), (2, (3, 4, 2))])
def test_the_number_of_tensors_is_a_new_axis(axis: int, expected: Dimensions) -> None:
    inputs = [*integers(axis), open_tensor(F32, (3, 0)), open_tensor(F32, (0, 4))]
    assert level_of(PACK, inputs, output(F32, expected)) == 6
    assert dimensions_of(PACK, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("axis", [-1, 3])
def test_an_axis_outside_the_output_is_refused(axis: int) -> None:
    with pytest.raises(HalError, match=f"axis {axis}, expected 0 to 2"):
        dimensions_of(PACK, [*integers(axis), open_tensor(F32, (3, 4))], output(F32))


def test_tensors_differ_in_nothing() -> None:
    first = open_tensor(Q8A, (3,), 0.5, 1)
    for other, message in (
        (open_tensor(Q8A, (3,), 0.5, 2), "expected equal ones"),
        (open_tensor(Q8A, (3, 1), 0.5, 1), "input 2 has rank 2"),
        (open_tensor(F32, (3,)), "TENSOR_FLOAT32, expected TENSOR_QUANT8_ASYMM"),
    ):
        with pytest.raises(HalError, match=message):
            level_of(PACK, [*integers(0), first, other], output(Q8A, (2, 3), 0.5, 1))
    with pytest.raises(HalError, match="expected equal dimensions"):
        dimensions_of(PACK, [*integers(0), first, open_tensor(Q8A, (4,), 0.5, 1)], output(Q8A, (2, 3), 0.5, 1))
    with pytest.raises(HalError, match="got 1 inputs, expected 2"):
        level_of(PACK, integers(0), output(Q8A, (2, 3), 0.5, 1))
