from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, absent, dimensions_of, integers, level_of, open_tensor, output

LSH = OperationType.LSH_PROJECTION


def given(projection: int, rows: int = 4, bits: int = 2, weight: Given | None = None) -> list[Given]:
    seeds, items = open_tensor(F32, (rows, bits)), open_tensor(I32, (3, 5))
    return [seeds, items, weight or absent(F32), *integers(projection)]


@pytest.mark.parametrize(("projection", "length"), [(1, 4), (2, 8), (3, 4)])
def test_a_number_for_each_bit_or_row(projection: int, length: int) -> None:
    inputs = given(projection)
    assert level_of(LSH, inputs, output(I32, (length,))) == 1
    assert dimensions_of(LSH, inputs, output(I32)) == ((length,),)


def test_signatures_have_at_most_32_bits() -> None:
    assert dimensions_of(LSH, given(3, rows=4, bits=30), output(I32)) == ((4,),)
    with pytest.raises(HalError, match="5 rows of 30 bits"):
        dimensions_of(LSH, given(3, rows=5, bits=30), output(I32))
    with pytest.raises(HalError, match="projection is 0"):
        dimensions_of(LSH, given(0), output(I32))


def test_weights_have_the_seeds_type_and_one_for_each_slice() -> None:
    assert dimensions_of(LSH, given(2, weight=open_tensor(F32, (3,))), output(I32)) == ((8,),)
    with pytest.raises(HalError, match=r"input 2 has dimensions \[2\], expected \[3\]"):
        dimensions_of(LSH, given(2, weight=open_tensor(F32, (2,))), output(I32))
    with pytest.raises(HalError, match="TENSOR_FLOAT16, expected TENSOR_FLOAT32"):
        level_of(LSH, given(2, weight=absent(F16)), output(I32, (8,)))


@pytest.mark.parametrize("code", [F32, I32, Q8A])
def test_slices_are_of_any_type(code: OperandType) -> None:
    inputs = given(2)
    inputs[1] = open_tensor(code, (3, 5), 0.5)
    assert level_of(LSH, inputs, output(I32, (8,))) == 1
