"""Layout of operands' elements in memory, those of extension types too."""

from __future__ import annotations

import numpy as np

from nnhal.extensions import onnx, tflite
from nnhal.types import Model
from nnhal.types.layout import ELEMENT_TYPES

_BYTES = np.dtype(np.uint8)


def number_type_of(model: Model, code: int) -> np.dtype[np.generic] | None:
    """Return the type of the elements of an operand type; None if they are no numbers."""
    if code in ELEMENT_TYPES:
        return ELEMENT_TYPES[code]
    if (number := onnx.number_of(model, code)) is not None:
        return onnx.ELEMENT_TYPES.get(number)
    if (number := tflite.number_of(model, code)) is not None:
        return tflite.ELEMENT_TYPES.get(number)
    return None


def element_type_of(model: Model, code: int) -> np.dtype[np.generic]:
    """Return the type of the elements in memory: bytes if they are no numbers."""
    found = number_type_of(model, code)
    return _BYTES if found is None else found
