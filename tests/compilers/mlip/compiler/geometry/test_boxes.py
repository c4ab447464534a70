"""Boxes of tensors, and the same bytes seen with other extents."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.compiler.geometry.boxes import (
    Extents,
    TensorBox,
    common,
    consecutive,
    coordinates,
    hull,
    position,
    seen_as,
    whole,
)

EXTENTS: Extents = (2, 3, 4, 5)


def _numbers(box: TensorBox, extents: Extents) -> set[int]:
    """The numbers of a box's elements in row-major order."""
    places = tuple(slice(start, stop) for start, stop in zip(*box, strict=True))
    return set(np.arange(np.prod(extents)).reshape(extents)[places].ravel().tolist())


def _random_box(random: np.random.Generator, extents: Extents) -> TensorBox:
    starts = [int(random.integers(extent)) for extent in extents]
    stops = [int(random.integers(start + 1, extent + 1)) for start, extent in zip(starts, extents, strict=True)]
    return TensorBox((starts[0], starts[1], starts[2], starts[3]), (stops[0], stops[1], stops[2], stops[3]))


@pytest.mark.parametrize("seed", range(30))
def test_hulls_hold_both_and_what_is_common_is_in_both(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = _random_box(random, EXTENTS), _random_box(random, EXTENTS)
    assert hull(one, other).holds(one) and hull(one, other).holds(other)
    shared = common(one, other)
    both = _numbers(one, EXTENTS) & _numbers(other, EXTENTS)
    assert (set() if shared is None else _numbers(shared, EXTENTS)) == both


@pytest.mark.parametrize("seed", range(30))
def test_consecutive_elements_have_no_gap(seed: int) -> None:
    box = _random_box(np.random.default_rng(seed), EXTENTS)
    found = consecutive(box, EXTENTS)
    numbers = _numbers(found, EXTENTS)
    assert found.holds(box)
    assert max(numbers) - min(numbers) + 1 == len(numbers)


@pytest.mark.parametrize("others", [(1, 1, 1, 120), (6, 1, 5, 4), (1, 24, 1, 5), (2, 60, 1, 1)])
@pytest.mark.parametrize("seed", range(10))
def test_other_extents_see_all_elements_of_a_box(others: Extents, seed: int) -> None:
    box = _random_box(np.random.default_rng(seed), EXTENTS)
    seen = seen_as(box, EXTENTS, others)
    assert _numbers(box, EXTENTS) <= _numbers(seen, others)
    assert consecutive(seen, others) == seen


def test_a_whole_tensor_is_whole_with_other_extents() -> None:
    assert seen_as(whole(EXTENTS), EXTENTS, (1, 1, 6, 20)) == whole((1, 1, 6, 20))


def test_numbers_and_coordinates_are_inverse() -> None:
    assert [position(coordinates(number, EXTENTS), EXTENTS) for number in range(120)] == list(range(120))


def test_a_permuted_box_has_its_axes_elsewhere() -> None:
    box = TensorBox((0, 1, 2, 3), (1, 3, 4, 5))
    assert box.permuted((0, 2, 3, 1)) == TensorBox((0, 3, 1, 2), (1, 5, 3, 4))
