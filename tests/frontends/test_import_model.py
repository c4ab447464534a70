"""The format of a model file: given, or recognised by the content."""

from __future__ import annotations

import pytest
from onnx.helper import make_node

from nnhal_frontends import ModelFormat, import_model
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
