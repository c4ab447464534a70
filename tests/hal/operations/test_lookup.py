from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, absent, dimensions_of, integers, level_of, open_tensor, output


def test_the_indices_dimensions_take_the_axis_place() -> None:
    inputs = [open_tensor(F32, (2, 0, 4)), *integers(-2), open_tensor(I32, (5, 6))]
    assert dimensions_of(OperationType.GATHER, inputs, output(F32)) == ((2, 5, 6, 4),)


def test_an_axis_outside_the_tensor_is_refused() -> None:
    inputs = [open_tensor(F32, (2, 3)), *integers(2), open_tensor(I32, (5,))]
    with pytest.raises(HalError, match="axis 2"):
        dimensions_of(OperationType.GATHER, inputs, output(F32))


EMBEDDING_LOOKUP_LOOKUP = OperationType.EMBEDDING_LOOKUP


def test_there_are_as_many_slices_as_lookups() -> None:
    inputs = [open_tensor(I32, (5,)), open_tensor(F32, (3, 0, 2))]
    assert level_of(EMBEDDING_LOOKUP_LOOKUP, inputs, output(F32, (5, 4, 2))) == 1
    assert dimensions_of(EMBEDDING_LOOKUP_LOOKUP, inputs, output(F32)) == ((5, 0, 2),)
    assert (
        level_of(EMBEDDING_LOOKUP_LOOKUP, [open_tensor(I32, (5,)), open_tensor(F16, (3, 2))], output(F16, (5, 2))) == 4
    )


def test_values_are_at_least_a_matrix() -> None:
    with pytest.raises(HalError, match="rank 1, expected at least 2"):
        level_of(EMBEDDING_LOOKUP_LOOKUP, [open_tensor(I32, (5,)), open_tensor(F32, (3,))], output(F32, (5,)))


def test_the_output_keeps_the_values_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(
            EMBEDDING_LOOKUP_LOOKUP, [open_tensor(I32, (5,)), open_tensor(Q8A, (3, 2), 0.5)], output(Q8A, scale=0.25)
        )


HASHTABLE_LOOKUP_LOOKUP = OperationType.HASHTABLE_LOOKUP
HITS = output(Q8A, (4,), 1.0)


def test_slices_and_hits_of_every_lookup() -> None:
    inputs = [open_tensor(I32, (4,)), open_tensor(I32, (3,)), open_tensor(F32, (0, 2))]
    assert level_of(HASHTABLE_LOOKUP_LOOKUP, inputs, output(F32, (4, 2)), HITS) == 1
    assert dimensions_of(HASHTABLE_LOOKUP_LOOKUP, inputs, output(F32), HITS) == ((4, 2), (4,))


def test_every_value_has_a_key_and_hits_are_plain_bytes() -> None:
    inputs = [open_tensor(I32, (4,)), open_tensor(I32, (3,)), open_tensor(F32, (5, 2))]
    with pytest.raises(HalError, match=r"input 1 has dimensions \[3\], expected \[5\]"):
        dimensions_of(HASHTABLE_LOOKUP_LOOKUP, inputs, output(F32), HITS)
    with pytest.raises(HalError, match=r"output 1 has scale 0.5"):
        dimensions_of(HASHTABLE_LOOKUP_LOOKUP, inputs, output(F32), output(Q8A, (4,), 0.5))


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
