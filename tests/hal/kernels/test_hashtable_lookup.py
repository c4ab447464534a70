from __future__ import annotations

import numpy as np

from nnhal.operations._types import I32, Q8A
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

HITS = output(Q8A, (), 1.0)


def test_hits_and_misses() -> None:
    inputs = [tensor(I32, [7, -4, 5, 9]), tensor(I32, [-4, 0, 7]), tensor(I32, [[1, 2], [3, 4], [5, 6]])]
    values, hits = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(I32), HITS)
    assert values.tolist() == [[5, 6], [1, 2], [0, 0], [0, 0]]
    assert hits.tolist() == [1, 1, 0, 0]


def test_a_miss_is_bytes_of_0_whatever_the_zero_point() -> None:
    inputs = [tensor(I32, [1]), tensor(I32, [0]), tensor(Q8A, [9], 0.5, 128)]
    values, _ = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(Q8A, (), 0.5, 128), HITS)
    assert values.tolist() == [0]


def test_an_empty_table_has_no_hits() -> None:
    inputs = [tensor(I32, [1, 2]), tensor(I32, np.zeros(0)), tensor(I32, np.zeros((0, 3)))]
    values, hits = compute(OperationType.HASHTABLE_LOOKUP, inputs, output(I32), HITS)
    assert (values.tolist(), hits.tolist()) == ([[0, 0, 0]] * 2, [0, 0])
