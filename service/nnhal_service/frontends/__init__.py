"""What turns users' models into HAL models: one package for each format, all with an ImportedModel as the result."""

from __future__ import annotations

from enum import IntEnum

import onnx
from google.protobuf.message import DecodeError

from nnhal_service.frontends.errors import InvalidModel
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.frontends.onnx import import_onnx
from nnhal_service.frontends.tflite import import_tflite
from nnhal_service.frontends.tflite.reader import is_tflite

__all__ = ["ModelFormat", "import_model"]


class ModelFormat(IntEnum):
    """The formats of model files, with the numbers of framework.proto."""

    ONNX = 1
    TFLITE = 2


def import_model(content: bytes, format: ModelFormat | None = None) -> ImportedModel:  # noqa: A002 - the proto's word
    """A HAL model for a model file. Without a format the content tells it.

    Raises FrontendError: InvalidModel where the file is not what its format asks for, UnsupportedNode or
    UnsupportedInput where the NN HAL cannot express the model.
    """
    if format is None:
        format = ModelFormat.TFLITE if is_tflite(content) else ModelFormat.ONNX  # noqa: A001
    if format == ModelFormat.TFLITE:
        return import_tflite(content)
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise InvalidModel(f"{len(content)} bytes that are no ONNX model and no TFLite model") from error
    return import_onnx(model)
