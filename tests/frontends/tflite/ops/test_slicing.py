"""SLICE, STRIDED_SLICE, GATHER and lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.drawn_values import random
from tests.support.tflite_files import Spec, floats, int8, int32
from tests.support.tflite_operators import Given, numbers, one


@pytest.mark.parametrize("kind", [floats, int8, int32])
@pytest.mark.parametrize("element_type", [np.int32, np.int64])
def test_a_slice_is_of_all_types(kind: Any, element_type: Any) -> None:
    bounds = [numbers([1, 0], element_type), numbers([2, -1], element_type)]
    assert one("SLICE", [kind(3, 4), *bounds], kind(2, 4)).check() == ["SLICE"]


@pytest.mark.parametrize(
    ("bounds", "masks", "output", "expected"),
    [
        (([1, 0], [4, 6], [2, 1]), {}, (2, 6), ["STRIDED_SLICE"]),
        (([4, 0], [0, 6], [-2, 1]), {}, (2, 6), ["STRIDED_SLICE"]),
        (([1, 2], [3, 4], [1, 1]), {"BeginMask": 1, "EndMask": 2}, (3, 4), ["STRIDED_SLICE"]),
        (([1], [3], [1]), {}, (2, 6), ["STRIDED_SLICE"]),
        (([-1, 2], [0, 4], [1, 1]), {"ShrinkAxisMask": 1}, (2,), ["STRIDED_SLICE"]),
        (([-2, 2], [0, 4], [1, 1]), {"ShrinkAxisMask": 3}, (), ["STRIDED_SLICE"]),
        (([0, 1], [0, 2], [1, 1]), {"EllipsisMask": 1}, (5, 1), ["STRIDED_SLICE"]),
        (([0, 1], [0, 3], [1, 1]), {"NewAxisMask": 1}, (1, 2, 6), ["STRIDED_SLICE", "RESHAPE"]),
        (
            ([0, 1, 0], [0, 2, 3], [1, 1, 2]),
            {"NewAxisMask": 1, "ShrinkAxisMask": 2},
            (1, 2),
            ["STRIDED_SLICE", "RESHAPE"],
        ),
        (([1, 2], [2, 3], [1, 1]), {"Offset": True}, (2, 3), ["STRIDED_SLICE"]),
    ],
)
def test_strided_slices_are_written_out(bounds: Any, masks: Any, output: tuple[int, ...], expected: list[str]) -> None:
    inputs: list[Given] = [floats(5, 6), *(numbers(values) for values in bounds)]
    assert one("STRIDED_SLICE", inputs, floats(*output), ("StridedSliceOptions", masks)).check() == expected


def test_a_strided_slice_of_integers_is_a_slice() -> None:
    inputs: list[Given] = [int32(5, 6), numbers([1, 2]), numbers([2, 4]), numbers([1, 1])]
    node = one("STRIDED_SLICE", inputs, int32(2), ("StridedSliceOptions", {"ShrinkAxisMask": 1}))
    assert node.check() == ["SLICE", "RESHAPE"]
    inputs[3] = numbers([1, 2])
    assert one("STRIDED_SLICE", inputs, int32(1)).refusal() == "a strided slice of integers"


def test_bounds_that_are_computed_at_run_time_take_no_shorthands() -> None:
    inputs: list[Given] = [floats(5, 6), int32(2), int32(2), int32(2)]
    values = {1: [1, 0], 2: [4, 6], 3: [2, 1]}
    node = one("STRIDED_SLICE", inputs, Spec([2, 6], signature=[-1, -1]), ("StridedSliceOptions", {}), values=values)
    assert node.check() == ["STRIDED_SLICE"]
    shorthand = one("STRIDED_SLICE", inputs, floats(2, 6), ("StridedSliceOptions", {"EllipsisMask": 1}))
    assert "computed at run time" in shorthand.refusal()


@pytest.mark.parametrize(
    ("given", "indices", "axis", "output", "expected"),
    [
        (floats(4, 3), numbers([[2, 0], [1, 1]]), 0, floats(2, 2, 3), ["GATHER"]),
        (int8(4, 3), numbers([3, 1], np.int64), 0, int8(2, 3), ["GATHER"]),
        (floats(4, 3), numbers(2), -1, floats(4), ["GATHER", "RESHAPE"]),
        (floats(4), numbers(2), 0, floats(), ["GATHER", "RESHAPE"]),
    ],
)
def test_indices_choose_slices(given: Spec, indices: Any, axis: int, output: Spec, expected: list[str]) -> None:
    assert one("GATHER", [given, indices], output, ("GatherOptions", {"Axis": axis})).check() == expected


def test_indices_for_each_of_a_batch_are_refused() -> None:
    options = ("GatherOptions", {"Axis": 1, "BatchDims": 1})
    assert one("GATHER", [floats(2, 3), numbers([[1], [0]])], floats(2, 1), options).refusal() == "1 batch axes"


def test_lookups_are_imported_as_they_are() -> None:
    embedding = one("EMBEDDING_LOOKUP", [int32(3), random(5, 4)], floats(3, 4), values={0: [4, 0, 2]})
    assert embedding.check() == ["EMBEDDING_LOOKUP"]
    keys, hits = numbers([1, 5, 9]), Spec([3], np.uint8)
    table = one("HASHTABLE_LOOKUP", [int32(3), keys, random(3, 2)], [floats(3, 2), hits], values={0: [5, 2, 9]})
    assert table.check() == ["HASHTABLE_LOOKUP"]


@pytest.mark.parametrize(("kind", "length"), [(1, 3), (2, 6)])
@pytest.mark.parametrize("weights", [[], [random(4)]])
def test_projections_have_their_type(kind: int, length: int, weights: list[Any]) -> None:
    node = one(
        "LSH_PROJECTION",
        [random(3, 2), int32(4, 2), *weights],
        int32(length),
        ("LSHProjectionOptions", {"Type": kind}),
        values={1: [[1, 2], [3, 4], [5, 6], [7, 8]]},
    )
    assert node.check() == ["LSH_PROJECTION"]
