"""The extension ``nnhal.onnx``: ONNX operators that the HAL has no operation for.

It has one operation, RUN. Its first input is a constant of type MESSAGE: a serialised ModelProto, whose graph says what
to compute. The further inputs and the outputs are those of the graph, in its order. An operand of dimensions [1] stands
for a tensor of rank 0 if the graph says so. The dimensions of outputs with data-dependent shapes are unknown.

The number of any other operand type is that of ONNX's element type (TensorProto.DataType). Elements of less than a byte
take a whole byte. A VALUE is anything that is not a tensor of numbers: strings, a sequence, an optional, a map. Its
elements are the bytes of a serialised OptionalProto.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nnhal.extensions import extension_code, split_code
from nnhal.types import Extension, ExtensionOperandType, Model

NAME = "nnhal.onnx"
PREFIX = 0x4F58
"""The prefix of the extension in models made here; devices identify it by its name."""
RUN = 0
"""The number of the operation."""
MESSAGE = 0
VALUE = 8
"""ONNX's number for strings, which no tensor of numbers uses."""

ELEMENT_TYPES: dict[int, np.dtype[np.generic]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
}
"""The numpy type of one element, by number."""

PACKED_TYPES = frozenset({21, 22, 23, 25, 26})
"""The numbers of the element types that ONNX packs, because they are smaller than a byte."""

NUMBERS = {element: number for number, element in ELEMENT_TYPES.items()}
"""The number of each numpy type."""

EXTENSION = Extension(
    NAME,
    (
        ExtensionOperandType(MESSAGE, True, 1),
        *(ExtensionOperandType(number, True, element.itemsize) for number, element in ELEMENT_TYPES.items()),
        ExtensionOperandType(VALUE, True, 1),
    ),
)
"""The description of the extension that drivers with support for it give."""


def operand_code(number: int) -> int:
    """Return the code of an operand type in models made here."""
    return extension_code(PREFIX, number)


OPERATION = extension_code(PREFIX, RUN)
"""The code of the operation in models made here."""


def number_of(model: Model, code: int) -> int | None:
    """Return the number of an operand or operation type, None if the code does not belong to this extension."""
    prefix, number = split_code(code)
    named = any(entry.prefix == prefix and entry.name == NAME for entry in model.extension_name_to_prefix)
    return number if named else None


def element_type_named(name: str) -> np.dtype[np.generic] | None:
    """Return the element type of a name; None for a VALUE."""
    return next((element for element in ELEMENT_TYPES.values() if element.name == name), None)
