"""A copy of the user's model for a folder, from which it can be run without the original."""

from __future__ import annotations

from pathlib import Path

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal_frontends.tflite_identifier import is_tflite


def model_copy(source: Path) -> tuple[str, bytes]:
    """Return the name and the bytes of a copy. An ONNX model has the data in it that it had in other files.

    Raises OSError, and ValueError if it is no regular file.
    """
    content = read_given_file(source, MOST_MODEL_BYTES, "a model")
    return ("model.tflite", content) if is_tflite(content) else ("model.onnx", _whole(source, content))


def _whole(source: Path, content: bytes) -> bytes:
    import onnx
    from onnx.external_data_helper import uses_external_data

    model = onnx.load_model_from_string(content)
    if not any(uses_external_data(tensor) for tensor in model.graph.initializer):
        return content
    whole: bytes = onnx.load(str(source)).SerializeToString()
    return whole
