"""Model files that commands read before they start anything."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_tools.given_model import read_model, require_writable
from tests.support.mobilenet import SIDE, MobileNet
from tests.support.onnx_models import onnx_model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model with two open inputs of numbers, and one of which all is known."""
    nodes = [helper.make_node("Sum", ["x", "m", "c"], ["y"])]
    model = onnx_model(nodes, {"x": ["batch", 3, None], "m": ["batch", 1, 1], "c": [3, 1]}, ["y"])
    file = tmp_path / "model.onnx"
    onnx.save(model, file)
    return file


def test_open_inputs_are_told_with_the_names_of_the_file(path: Path) -> None:
    given = read_model(path)
    assert given.open_inputs() == "x [batch, 3, ?], m [batch, 1, 1]"
    assert given.dimensions == {}


def test_dimensions_are_fixed_by_name_and_by_input(path: Path) -> None:
    given = read_model(path, ["batch=2"], ["x:2x3x5"])
    assert given.dimensions == {"x": (2, 3, 5), "m": (2, 1, 1)}
    assert not given.open_inputs()
    arrays = {"x": np.zeros((2, 3, 5), np.float32), "m": np.zeros((2, 1, 1), np.float32)}
    given.require_inputs({**arrays, "c": np.zeros((3, 1), np.float32)})
    with pytest.raises(ValueError, match=r"input 'c' is float32 \[3\], expected float32 \[3, 1\]"):
        given.require_inputs({**arrays, "c": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"got inputs \['m', 'x'\], expected \['c', 'm', 'x'\]"):
        given.require_inputs(arrays)


def test_open_dimensions_take_any_length(path: Path) -> None:
    arrays = {name: np.zeros(shape, np.float32) for name, shape in (("x", (7, 3, 9)), ("m", (7, 1, 1)), ("c", (3, 1)))}
    read_model(path).require_inputs(arrays)
    for wrong in (np.zeros((7, 3, 9)), np.zeros((7, 4, 9), np.float32)):
        told = f"input 'x' is {wrong.dtype} {list(wrong.shape)}, expected float32 [batch, 3, ?]"
        with pytest.raises(ValueError, match=re.escape(told)):
            read_model(path).require_inputs({**arrays, "x": wrong})


def test_tflite_models_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(MobileNet().content)
    assert [tensor.shape for tensor in read_model(path).inputs] == [(1, SIDE, SIDE, 3)]
    with pytest.raises(ValueError, match="no open dimension with a name; see --shape"):
        read_model(path, ["batch=1"])


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"model\.onnx: 7 bytes that are neither an ONNX nor a TFLite model"):
        read_model(path)


def test_files_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    require_writable([None, tmp_path / "new.json"])
    with pytest.raises(FileNotFoundError):
        require_writable([tmp_path / "none" / "new.json"])
    with pytest.raises(IsADirectoryError):
        require_writable([tmp_path])
