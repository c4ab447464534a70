from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.kernels._fingerprint import fingerprint
from nnhal.operations._types import F16, F32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, absent, integers, output, tensor

SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3
SEEDS = np.array([[0.5, 1.5, -2.0], [3.25, -0.125, 8.0]], np.float32)
ITEMS = np.array([[1, 2], [3, 4], [-5, 6], [7, 80]], np.int32)
WEIGHTS = np.array([0.5, -2.0, 0.25, 1.0], np.float32)


def projected(projection: int, weights: Given, seeds: Given | None = None) -> list[int]:
    inputs = [seeds or tensor(F32, SEEDS), tensor(I32, ITEMS), weights, *integers(projection)]
    (result,) = compute(OperationType.LSH_PROJECTION, inputs, output(I32))
    return list(result)


def bits(weights: Array) -> Array:
    """One bit after the other."""
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
