"""The extension ``nnhal.tflite``: TFLite operators that the HAL has no operation for.

It has one operation, RUN. Its first input is a constant of type MESSAGE: a TFLite model, whose main subgraph says what
to compute. The further inputs and the outputs are those of that subgraph, in its order. The HAL's operands stand for
tensors as the front end makes them: a TENSOR_INT32 also for int64, and dimensions [1] also for rank 0. The execution
fails if an int64 does not fit a TENSOR_INT32. The dimensions of outputs with data-dependent shapes are unknown. RUN
keeps nothing from run to run: a message has no variables.

The number of any other operand type is that of TFLite's TensorType. STRING is a tensor of strings: its elements are the
bytes of a serialised OptionalProto, as of a VALUE of ``nnhal.onnx``.
"""

from __future__ import annotations

import numpy as np

from nnhal.extensions import extension_code, split_code
from nnhal.types import Extension, ExtensionOperandType, Model

NAME = "nnhal.tflite"
PREFIX = 0x5446
"""The prefix of the extension in models made here; devices identify it by its name."""
RUN = 0
"""The number of the operation."""
MESSAGE = 0x100
STRING = 5

ELEMENT_TYPES: dict[int, np.dtype[np.generic]] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float16),
    2: np.dtype(np.int32),
    3: np.dtype(np.uint8),
    4: np.dtype(np.int64),
    6: np.dtype(np.bool_),
    7: np.dtype(np.int16),
    8: np.dtype(np.complex64),
    9: np.dtype(np.int8),
    10: np.dtype(np.float64),
    11: np.dtype(np.complex128),
    12: np.dtype(np.uint64),
    15: np.dtype(np.uint32),
    16: np.dtype(np.uint16),
}
"""The numpy type of one element, by number."""

EXTENSION = Extension(
    NAME,
    (
        ExtensionOperandType(MESSAGE, True, 1),
        *(ExtensionOperandType(number, True, element.itemsize) for number, element in ELEMENT_TYPES.items()),
        ExtensionOperandType(STRING, True, 1),
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
