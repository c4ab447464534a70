"""Operators that change a tensor's shape or return it."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import TensorType

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref
from tests.support.tflite_files import Spec, floats, int8, int32
from tests.support.tflite_operators import numbers, one


@pytest.mark.parametrize(
    ("inputs", "output", "options"),
    [
        ([floats(2, 6), numbers([3, -1])], floats(3, 4), {}),
        ([floats(2, 6)], floats(3, 4), {"NewShape": [3, 4]}),
        ([int32(2, 6), numbers([3, 4])], int32(3, 4), {}),
        ([int8(2, 6), numbers([3, 4])], int8(3, 4), {}),
        ([floats(1, 1), numbers([])], floats(), {}),
    ],
)
def test_a_shape_is_an_input_or_an_option(inputs: Any, output: Spec, options: dict[str, Any]) -> None:
    assert one("RESHAPE", inputs, output, ("ReshapeOptions", options)).check() == ["RESHAPE"]


@pytest.mark.parametrize(("axes", "output"), [([], (3, 2)), ([0], (3, 1, 2)), ([-2], (1, 3, 2)), ([0, 2], (3, 2))])
def test_axes_of_one_element_are_taken_away(axes: list[int], output: tuple[int, ...]) -> None:
    options = {"SqueezeDims": axes} if axes else {}
    assert one("SQUEEZE", [floats(1, 3, 1, 2)], floats(*output), ("SqueezeOptions", options)).check() == ["RESHAPE"]


@pytest.mark.parametrize(
    ("given", "axis", "output"),
    [(floats(3, 2), -1, floats(3, 2, 1)), (int32(3, 2), 1, int32(3, 1, 2)), (floats(), 0, floats(1))],
)
def test_an_axis_is_put_in(given: Spec, axis: int, output: Spec) -> None:
    assert one("EXPAND_DIMS", [given, numbers(axis)], output).check() == ["RESHAPE"]


@pytest.mark.parametrize("kind", [floats, int8])
def test_axes_change_places(kind: Any) -> None:
    assert one("TRANSPOSE", [kind(2, 3, 4), numbers([2, 0, 1])], kind(4, 2, 3)).check() == ["TRANSPOSE"]


@pytest.mark.parametrize(
    ("code", "options", "output", "expected"),
    [("SHAPE", ("ShapeOptions", {"OutType": TensorType.INT32}), int32(3), [2, 3, 4]), ("RANK", None, int32(), [3])],
)
def test_a_shape_that_is_known_is_a_constant(code: str, options: Any, output: Spec, expected: list[int]) -> None:
    node = one(code, [floats(2, 3, 4)], output, options)
    assert node.check() == ["CAST"]
    imported = import_tflite(node.file())
    assert imported.folded_nodes == (f"{code}_0:y0",)
    assert by_cpu_ref(imported, node.arrays())[0].tolist() == expected
