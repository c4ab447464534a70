from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output

LOOKUP = OperationType.EMBEDDING_LOOKUP


def test_there_are_as_many_slices_as_lookups() -> None:
    inputs = [open_tensor(I32, (5,)), open_tensor(F32, (3, 0, 2))]
    assert level_of(LOOKUP, inputs, output(F32, (5, 4, 2))) == 1
    assert dimensions_of(LOOKUP, inputs, output(F32)) == ((5, 0, 2),)
    assert level_of(LOOKUP, [open_tensor(I32, (5,)), open_tensor(F16, (3, 2))], output(F16, (5, 2))) == 4


def test_values_are_at_least_a_matrix() -> None:
    with pytest.raises(HalError, match="rank 1, expected at least 2"):
        level_of(LOOKUP, [open_tensor(I32, (5,)), open_tensor(F32, (3,))], output(F32, (5,)))


def test_the_output_keeps_the_values_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(LOOKUP, [open_tensor(I32, (5,)), open_tensor(Q8A, (3, 2), 0.5)], output(Q8A, scale=0.25))
