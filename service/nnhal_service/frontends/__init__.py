"""What turns users' models into HAL models: one package for each format, all with an ImportedModel as the result."""

from __future__ import annotations

from enum import IntEnum

from google.protobuf.message import DecodeError

from nnhal_service.frontends.errors import InvalidModel
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.frontends.tflite_identifier import is_tflite

__all__ = ["ModelFormat", "import_model"]


class ModelFormat(IntEnum):
    """The formats of model files, with the numbers of framework.proto."""

    ONNX = 1
    TFLITE = 2


def import_model(
    content: bytes,
    format: ModelFormat | None = None,  # noqa: A002 - the proto's word
    as_one: bool = False,
) -> ImportedModel:
    """A HAL model for a model file. Without a format the content tells it.

    ``as_one`` makes an ONNX model one operation of the extension nnhal.onnx; it changes nothing for others. Raises
    FrontendError: InvalidModel where the file is not what its format asks for, UnsupportedNode or UnsupportedInput
    where the NN HAL cannot express the model.
    """
    if format is None:
        format = ModelFormat.TFLITE if is_tflite(content) else ModelFormat.ONNX  # noqa: A001
    if format == ModelFormat.TFLITE:
        # What reads a format is imported with the first model of that format.
        from nnhal_service.frontends.tflite import import_tflite

        return import_tflite(content)
    from onnx import ModelProto  # "import onnx" would name the subpackage here

    from nnhal_service.frontends.onnx import import_onnx

    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise InvalidModel(f"{len(content)} bytes that are no ONNX model and no TFLite model") from error
    return import_onnx(model, as_one=as_one)
