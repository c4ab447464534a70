"""Elements that move between tensors of more than four axes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends.tflite.flat import folded
from tests.frontends.tflite_extension import RUN, check, names_of
from tests.support.drawn_values import random
from tests.support.ethos_u import is_taken
from tests.support.onnx_models import resolved
from tests.support.tflite_files import TfliteFile, floats, int8
from tests.support.tflite_operators import numbers


def chain(kind: Any, *steps: tuple[str, list[int], list[int]]) -> bytes:
    """A file of operators with one list of integers each, and the shape that each makes."""
    file = TfliteFile()
    x = file.input("x", kind(1, 4, 3, 6))
    for number, (code, parameter, made) in enumerate(steps):
        (x,) = file.operator(code, [x, file.constant(numbers(parameter))], {f"t{number}": kind(*made)})
    return file.build(x)


ENLARGED = (
    ("RESHAPE", [1, 4, 1, 3, 6], [1, 4, 1, 3, 6]),
    ("TILE", [1, 1, 2, 1, 1], [1, 4, 2, 3, 6]),
    ("RESHAPE", [1, 8, 3, 1, 6], [1, 8, 3, 1, 6]),
    ("TILE", [1, 1, 1, 2, 1], [1, 8, 3, 2, 6]),
    ("RESHAPE", [1, 8, 6, 6], [1, 8, 6, 6]),
)
SHUFFLED = (
    ("RESHAPE", [1, 4, 3, 2, 3], [1, 4, 3, 2, 3]),
    ("TRANSPOSE", [0, 1, 2, 4, 3], [1, 4, 3, 3, 2]),
    ("RESHAPE", [1, 4, 3, 6], [1, 4, 3, 6]),
)


@pytest.mark.parametrize("steps", [ENLARGED, SHUFFLED], ids=["enlarged", "shuffled"])
@pytest.mark.parametrize("kind", [floats, int8])
def test_five_axes_are_as_many_as_matter(kind: Any, steps: Any) -> None:
    values = random(1, 4, 3, 6) if kind is floats else np.arange(72, dtype=np.int8).reshape(1, 4, 3, 6)
    imported = check(chain(kind, *steps), {"x": values})
    assert set(names_of(imported)) == {"RESHAPE", "TILE" if steps is ENLARGED else "TRANSPOSE"}
    if kind is int8:
        assert is_taken(resolved(imported.model))


def test_axes_that_others_read_stay() -> None:
    steps = (*ENLARGED[:2], ("SUM", [1], [1, 2, 3, 6]))
    assert names_of(check(chain(floats, *steps), {"x": random(1, 4, 3, 6)}))[-1] == RUN


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_permutation_of_fewer_axes_moves_the_same(shape: list[int], source: Any) -> None:
    order = list(range(len(shape)))
    source.shuffle(order)
    values = np.arange(np.prod(shape)).reshape(shape)
    dimensions, axes = folded(shape, order)
    np.testing.assert_array_equal(values.reshape(dimensions).transpose(axes).ravel(), values.transpose(order).ravel())
    assert not any(later == first + 1 for first, later in pairwise(axes))
