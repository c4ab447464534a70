"""The extension ``nnhal.onnx``: ONNX operators that the HAL has no operation for.

It has one operation, RUN. Its first input is a constant of type MESSAGE: a serialised ModelProto, whose graph says what
to compute. The further inputs and the outputs are those of the graph, in its order. An operand of dimensions [1] stands
for a tensor of rank 0 if the graph says so. The dimensions of outputs with data-dependent shapes are unknown.

The number of any other operand type is that of ONNX's element type (TensorProto.DataType). Elements of less than a byte
take a whole byte. A VALUE is anything that is not a tensor of numbers: strings, a sequence, an optional, a map. Its
elements are the bytes of a serialised OptionalProto.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from nnhal import small_types
from nnhal.extensions import extension_code, split_code
from nnhal.types import Extension, ExtensionOperandType, Model
from nnhal.types.layout import is_extension

NAME = "nnhal.onnx"
PREFIX = 0x4F58
"""The prefix of the extension in models made here; devices identify it by its name."""
RUN = 0
"""The number of the operation."""
MESSAGE = 0
FILE_KEY = "location"
"""The key of a tensor's external data that has the name of the file."""
VALUE = 8
"""ONNX's number for strings, which no tensor of numbers uses."""

_OF_ML_DTYPES = {
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}
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
    **{number: element for number, name in _OF_ML_DTYPES.items() if (element := small_types.find(name)) is not None},
}
"""The numpy type of one element, by number. Those from 16 on are missing if the package ml_dtypes is."""

PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""The bits of elements that are less than a byte for ONNX, by number."""
PACKED_TYPES = PACKED_BITS.keys()

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
    if not is_extension(code):
        return None
    prefix, number = split_code(code)
    named = any(entry.prefix == prefix and entry.name == NAME for entry in model.extension_name_to_prefix)
    return number if named else None


def tensor_in_another_file(message: Message) -> str | None:
    """Return the name of a tensor in one of ONNX's messages whose values are to be read from a file; None if none is.

    Only who can read a file may have it read: a device must not open the files that a client names.
    """
    return next((str(tensor.name) for tensor in tensors_elsewhere(message)), None)


def may_name_files(content: bytes) -> bool:
    """True if a serialised message of ONNX's may name a file of values. Most name none, which costs no look at their
    tensors: this key has the name.
    """
    return FILE_KEY.encode() in content


def tensors_elsewhere(message: Message) -> Iterator[Any]:
    """Yield the tensors in one of ONNX's messages, at any depth, whose values are to be read from a file."""
    for field, value in message.ListFields():
        if field.message_type is None or not _may_have_tensors(field.message_type):
            continue
        each: Iterable[Any] = (value,) if isinstance(value, Message) else value
        for inner in each:
            if field.message_type.name != "TensorProto":
                yield from tensors_elsewhere(inner)
            elif inner.data_location or inner.external_data:
                yield inner


def tensor_names(graph: Any) -> set[str]:
    """Return all names that tensors have in one of ONNX's graphs and in those of its nodes."""
    found = {value.name for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)}
    found.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        found.update(node.input, node.output)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                found |= tensor_names(inner)
    return found


def fresh(name: str, taken: Collection[str]) -> str:
    """Return a name, changed if it is among those that are taken."""
    while name in taken:
        name += "_"
    return name


@cache
def _may_have_tensors(kind: Descriptor) -> bool:
    """Return whether messages of a type can be tensors or have some in them, however deep."""
    seen: set[str] = set()
    left = [kind]
    while left:
        current = left.pop()
        if current.name == "TensorProto":
            return True
        if current.full_name not in seen:
            seen.add(current.full_name)
            left += [field.message_type for field in current.fields if field.message_type is not None]
    return False


def element_type_named(name: str) -> np.dtype[np.generic] | None:
    """The element type of a name; None for a VALUE. Raises MissingTypeError if it needs a package that is missing."""
    if name in _OF_ML_DTYPES.values():
        return small_types.require(name)
    return next((element for element in ELEMENT_TYPES.values() if element.name == name), None)
