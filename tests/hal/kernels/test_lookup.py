from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.kernels._fingerprint import fingerprint
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import ErrorStatus, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, absent, integers, output, tensor

GATHER_VALUES = tensor(F32, [[1, 2, 3], [4, 5, 6]])


def test_indices_of_any_rank_pick_slices() -> None:
    (result,) = compute(
        OperationType.GATHER, [GATHER_VALUES, *integers(-1), tensor(I32, [[2, 0], [1, 1]])], output(F32)
    )
    assert result.tolist() == [[[3, 1], [2, 2]], [[6, 4], [5, 5]]]
    (empty,) = compute(OperationType.GATHER, [GATHER_VALUES, *integers(0), tensor(I32, np.zeros((0, 2)))], output(F32))
    assert empty.shape == (0, 2, 3)


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_the_axis_is_refused(index: int) -> None:
    with pytest.raises(HalError, match=rf"indices: index {index}, expected one in \[0, 3\)") as caught:
        compute(OperationType.GATHER, [GATHER_VALUES, *integers(1), tensor(I32, [0, index])], output(F32))
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


EMBEDDING_LOOKUP_VALUES = tensor(Q8AS, [[1, 2], [-3, 4]], 0.5)


def test_slices_are_picked_as_they_are() -> None:
    (result,) = compute(
        OperationType.EMBEDDING_LOOKUP, [tensor(I32, [1, 0, 1]), EMBEDDING_LOOKUP_VALUES], output(Q8AS, (), 0.5)
    )
    assert result.tolist() == [[-3, 4], [1, 2], [-3, 4]]


def test_an_index_outside_the_values_is_refused() -> None:
    with pytest.raises(HalError, match="lookups: index 2, expected one in"):
        compute(OperationType.EMBEDDING_LOOKUP, [tensor(I32, [0, 2]), EMBEDDING_LOOKUP_VALUES], output(Q8AS, (), 0.5))


HITS = output(Q8A, (), 1.0)


def test_hits_and_misses() -> None:
    inputs = [tensor(I32, [7, -4, 5, 9]), tensor(I32, [-4, 0, 7]), tensor(I32, [[1, 2], [3, 4], [5, 6]])]
    values, hits = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(I32), HITS)
    assert values.tolist() == [[5, 6], [1, 2], [0, 0], [0, 0]]
    assert hits.tolist() == [1, 1, 0, 0]


def test_keys_that_do_not_ascend_are_found_all_the_same() -> None:
    inputs = [tensor(I32, [5, 1, 6]), tensor(I32, [1, 7, 5]), tensor(I32, [1, 2, 3])]
    values, hits = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(I32), HITS)
    assert (values.tolist(), hits.tolist()) == ([3, 1, 0], [1, 1, 0])


def test_a_miss_is_bytes_of_0_whatever_the_zero_point() -> None:
    inputs = [tensor(I32, [1]), tensor(I32, [0]), tensor(Q8A, [9], 0.5, 128)]
    values, _ = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(Q8A, (), 0.5, 128), HITS)
    assert values.tolist() == [0]


def test_an_empty_table_has_no_hits() -> None:
    inputs = [tensor(I32, [1, 2]), tensor(I32, np.zeros(0)), tensor(I32, np.zeros((0, 3)))]
    values, hits = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(I32), HITS)
    assert (values.tolist(), hits.tolist()) == ([[0, 0, 0]] * 2, [0, 0])


SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3
SEEDS = np.array([[0.5, 1.5, -2.0], [3.25, -0.125, 8.0]], np.float32)
ITEMS = np.array([[1, 2], [3, 4], [-5, 6], [7, 80]], np.int32)
WEIGHTS = np.array([0.5, -2.0, 0.25, 1.0], np.float32)


def projected(projection: int, weights: Given, seeds: Given | None = None) -> list[int]:
    inputs = [seeds or tensor(F32, SEEDS), tensor(I32, ITEMS), weights, *integers(projection)]
    (result,) = compute(OperationType.LSH_PROJECTION, inputs, output(I32))
    return list(result)


def bits(weights: Array) -> Array:
    result = np.zeros(SEEDS.shape, np.int32)
    for place in np.ndindex(*SEEDS.shape):
        keys = (np.frombuffer(SEEDS[place].tobytes() + item.tobytes(), np.uint8) for item in ITEMS)
        hashes = [int(fingerprint(key[None]).view(np.int64)[0]) for key in keys]
        result[place] = sum(float(w) * h for w, h in zip(weights, hashes, strict=True)) > 0
    return result


def test_dense_projections_are_the_bits() -> None:
    assert projected(DENSE, tensor(F32, WEIGHTS)) == bits(WEIGHTS).ravel().tolist()
    assert projected(DENSE, absent(F32)) == bits(np.ones(4)).ravel().tolist()


def test_sparse_projections_are_numbers_whose_first_bit_is_the_highest() -> None:
    numbers = bits(WEIGHTS) @ [4, 2, 1]
    assert projected(SPARSE_DEPRECATED, tensor(F32, WEIGHTS)) == numbers.tolist()
    assert projected(SPARSE, tensor(F32, WEIGHTS)) == (numbers + np.array([0, 8])).tolist()


@pytest.mark.parametrize("projection", [SPARSE, DENSE])
def test_seeds_of_half_precision_hash_as_the_same_numbers(projection: int) -> None:
    half = projected(projection, tensor(F16, WEIGHTS), tensor(F16, SEEDS))
    assert half == projected(projection, tensor(F32, WEIGHTS))
