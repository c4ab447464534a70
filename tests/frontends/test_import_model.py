"""Importing a model file: its format, given or recognised by the content, and its constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends import ModelFormat, import_file, import_model
from nnhal_frontends.builder import MAX_INLINE_BYTES
from nnhal_frontends.errors import InvalidModel
from tests.support.onnx_models import onnx_model, operations
from tests.support.tflite_files import floats
from tests.support.tflite_operators import one

TFLITE = one("TANH", [floats(2, 3)], floats(2, 3)).file()
ONNX = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"]).SerializeToString()


@pytest.mark.parametrize("content", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_the_content_tells_the_format(content: bytes) -> None:
    assert operations(import_model(content)) == ["TANH" if content is TFLITE else "RELU"]


def test_a_given_format_is_not_guessed() -> None:
    assert operations(import_model(TFLITE, ModelFormat.TFLITE)) == ["TANH"]
    with pytest.raises(InvalidModel, match="not a TFLite model"):
        import_model(ONNX, ModelFormat.TFLITE)
    with pytest.raises(InvalidModel):
        import_model(TFLITE, ModelFormat.ONNX)


@pytest.mark.parametrize("content", [b"", b"text that is neither, but long enough to look at"])
def test_a_file_that_is_neither_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidModel):
        import_model(content)


@pytest.mark.parametrize("content", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_a_file_is_imported_as_its_content_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    assert import_file(path).operation_nodes == import_model(content).operation_nodes


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        import_file(tmp_path / "nowhere.tflite")


def test_a_resolved_model_has_constants_from_the_model_and_from_its_pool() -> None:
    weights = np.arange(MAX_INLINE_BYTES, dtype=np.float32).reshape(1, -1)
    nodes = [make_node("Mul", ["x", "small"], ["scaled"]), make_node("Add", ["scaled", "weights"], ["y"])]
    constants = {"small": np.full((1, 1), 3, np.float32), "weights": weights}
    model = onnx_model(nodes, {"x": [1, weights.size]}, ["y"], constants)
    imported = import_model(model.SerializeToString())
    (found,) = imported.resolved().constants
    for name, values in constants.items():
        np.testing.assert_array_equal(found[imported.operand_names.index(name)], values)
    assert len(imported.model.pools) == 1


HUGE = [1 << 30, 1 << 30]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            onnx_model([make_node("Relu", ["x"], ["y"], name="n")], {"x": HUGE}, ["y"]).SerializeToString(),
            "tensor 'x' of [1073741824, 1073741824] takes 4611686018427387904 bytes, expected at most 4294967295",
        ),
        (
            onnx_model([make_node("Relu", ["x"], ["y"])], {"x": ["n", 1 << 33]}, ["y"]).SerializeToString(),
            "tensor 'x' of [?, 8589934592] is too long, expected a length of at most 4294967295",
        ),
        (
            onnx_model(
                [make_node("Pad", ["x", "pads"], ["big"]), make_node("ReduceSum", ["big"], ["y"], keepdims=0)],
                {"x": [1, 1]},
                ["y"],
                {"pads": np.array([0, 0, 1 << 40, 1 << 40])},
            ).SerializeToString(),
            "tensor 'big' of [1099511627777, 1099511627777] takes 4835703278467312791846916 bytes",
        ),
        (one("TANH", [floats(*HUGE)], floats(*HUGE)).file(), "takes 4611686018427387904 bytes, expected at most"),
    ],
    ids=["ONNX", "an axis", "inside", "TFLite"],
)
def test_a_tensor_that_the_hal_cannot_have_is_named_with_its_bytes(content: bytes, message: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        import_model(content)
    assert message in str(caught.value)
