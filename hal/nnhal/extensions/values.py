"""Values that are not tensors of numbers, as the bytes of an OptionalProto.

In Python they are arrays of strings (dtype object), lists, dictionaries, and None for an optional without a value. The
elements of lists and optionals may also be arrays of numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from nnhal.arrays import Array

Value = Any
"""Array | list[Value] | dict | None"""

_SKIPPED_FIELD = b"\xa2\x06"
"""The tag of field 100, length-delimited, which no OptionalProto has."""
PADDING_BYTES = 7
"""The fewest bytes that ``padded`` can add."""


def value_to_bytes(value: Value) -> bytes:
    """Encode a value."""
    return _message(value).SerializeToString()


def value_from_bytes(raw: bytes | Array) -> Value:
    """Decode a value. Raises DecodeError."""
    return _value(onnx.OptionalProto.FromString(bytes(raw)))


def strings_from_bytes(raw: bytes | Array) -> Array:
    """Decode a tensor of strings to an array of bytes, dtype object, without decoding the strings themselves.

    Raises ValueError if it is another value, DecodeError if the message is malformed.
    """
    message = onnx.OptionalProto.FromString(bytes(raw))
    tensor = message.tensor_value
    if message.elem_type != onnx.OptionalProto.TENSOR or tensor.data_type != onnx.TensorProto.STRING:
        raise ValueError("the value is not a tensor of strings")
    strings = np.empty(len(tensor.string_data), object)
    strings[:] = list(tensor.string_data)
    return strings.reshape(tuple(tensor.dims))


def padded(encoded: bytes, size: int) -> bytes:
    """Pad an encoded value to ``size`` bytes, at least PADDING_BYTES more than it has. Decoders skip the padding."""
    rest = size - len(encoded) - PADDING_BYTES
    length = bytes(rest >> shift & 0x7F | (0x80 if shift < 28 else 0) for shift in (0, 7, 14, 21, 28))
    return encoded + _SKIPPED_FIELD + length + bytes(rest)


def _message(value: Value) -> onnx.OptionalProto:
    if value is None:
        return onnx.OptionalProto(elem_type=onnx.OptionalProto.UNDEFINED)
    if isinstance(value, list):
        sequence = onnx.SequenceProto(elem_type=onnx.SequenceProto.OPTIONAL)
        sequence.optional_values.extend(_message(item) for item in value)
        return onnx.OptionalProto(elem_type=onnx.OptionalProto.SEQUENCE, sequence_value=sequence)
    if isinstance(value, dict):
        return onnx.OptionalProto(elem_type=onnx.OptionalProto.MAP, map_value=numpy_helper.from_dict(value))
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR, tensor_value=numpy_helper.from_array(array))


def _value(message: onnx.OptionalProto) -> Value:
    if message.elem_type == onnx.OptionalProto.TENSOR:
        return numpy_helper.to_array(message.tensor_value)
    if message.elem_type == onnx.OptionalProto.SEQUENCE:
        return [_value(item) for item in message.sequence_value.optional_values]
    if message.elem_type == onnx.OptionalProto.MAP:
        return numpy_helper.to_dict(message.map_value)
    return None
