"""Operators over constants are computed on import within limits; what exceeds them is left to the devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal_frontends import import_model
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.limits import DEFAULT_LIMITS
from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import operations
from tests.support.tflite_files import TfliteFile, booleans, floats, int8, int32


def test_a_result_that_is_longer_than_a_shape_is_left_to_the_devices() -> None:
    file = TfliteFile()
    x = file.input("x", int32(1))
    column, row = file.constant(np.ones((64, 1), np.int32)), file.constant(np.ones((1, 64), np.int32))
    (grid,) = file.operator("ADD", [column, row], {"grid": int32(64, 64)}, ("AddOptions", {}))
    (y,) = file.operator("ADD", [x, grid], {"y": int32(64, 64)}, ("AddOptions", {}))
    assert operations(import_model(file.build(y))) == ["ADD", "ADD"]


def test_many_inputs_are_not_joined_on_import() -> None:
    file = TfliteFile()
    x = file.input("x", floats(1, 4))
    part = file.constant(np.ones(1024, np.int32))
    (joined,) = file.operator("PACK", [part] * 100, {"p": int32(100, 1024)}, ("PackOptions", {"ValuesCount": 100}))
    (y,) = file.operator("TANH", [x], {"y": floats(1, 4)})
    assert "PACK" in operations(import_model(file.build(y, joined)))


def test_constants_that_operators_need_are_bounded_together() -> None:
    limits = replace(DEFAULT_LIMITS, folded_bytes=0)  # four times the file's own bytes are allowed all the same
    file = TfliteFile()
    x, shape = file.input("x", booleans(1, 1)), file.constant(np.array([64, 64], np.int32))
    (y,) = file.operator("BROADCAST_TO", [x, shape], {"y": booleans(64, 64)})
    content = file.build(y)
    assert operations(import_model(content)) == ["LOGICAL_OR"]
    with pytest.raises(UnsupportedNode, match=r"a constant of \[64, 64\] that the file does not have, of 4096 bytes"):
        import_tflite(content, limits, extension=False)


def test_floats_of_quantised_constants_that_exceed_the_limit_are_computed_by_the_device() -> None:
    file = TfliteFile()
    x, weights = file.input("x", int8(1, 64)), file.constant(np.ones((256, 64), np.int8), int8(256, 64))
    results = [file.operator("POW", [x, weights], {f"y{i}": int8(256, 64)}, ("PowOptions", {}))[0] for i in range(3)]
    limits = replace(DEFAULT_LIMITS, folded_bytes=0)  # leaves room for the floats of one of the three
    kinds = operations(import_model(file.build(*results), limits=limits))
    assert kinds.count("POW") == 3
    assert kinds.count("DEQUANTIZE") == 3 + 2


def test_the_operators_of_all_subgraphs_count() -> None:
    file = TfliteFile()
    value = file.input("x", floats(1, 4))
    for number in range(8):
        (value,) = file.operator("TANH", [value], {f"v{number}": floats(1, 4)})
    content = file.build(value)
    assert len(operations(import_model(content, limits=replace(DEFAULT_LIMITS, nodes=8)))) == 8
    with pytest.raises(InvalidModel, match="the file has more than 7 operators, the most that are allowed"):
        import_model(content, limits=replace(DEFAULT_LIMITS, nodes=7))
