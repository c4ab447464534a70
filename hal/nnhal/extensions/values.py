"""Values that are not tensors of numbers, as bytes in the wire form of ONNX's OptionalProto.

In Python they are arrays of strings (dtype object), lists, dictionaries, and None for an optional without a value. The
elements of lists and optionals may also be arrays of numbers. The values of dictionaries are Python's own numbers and
strings, as in ONNX Runtime; so are their keys.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.extensions.onnx import ELEMENT_TYPES, NUMBERS, PACKED_BITS, VALUE
from nnhal.v1 import value_pb2 as wire

Value = Any
"""Array | list[Value] | dict | None"""

_SKIPPED_FIELD = b"\xa2\x06"
"""The tag of field 100, length-delimited, which no OptionalProto has."""
_FLOAT64 = NUMBERS[np.dtype(np.float64)]
_DOUBLE = struct.Struct("<d")
PADDING_BYTES = 7
"""The fewest bytes that ``padded`` can add."""


def value_to_bytes(value: Value) -> bytes:
    """Encode a value. Raises ValueError if it has elements that ONNX has no type for."""
    if type(value) is list and value and type(value[0]) is dict and (form := _form_of(value[0])):
        encoded = form.encoded(value)
        if encoded is not None:
            return encoded
    return _message(value).SerializeToString()


def value_from_bytes(raw: bytes | Array) -> Value:
    """Decode a value. Raises DecodeError."""
    global _last_form
    raw = bytes(raw)
    if _last_form is not None and (maps := _last_form.decoded(raw)) is not None:
        return maps
    value = _value(wire.Value.FromString(raw))
    if type(value) is list and value and type(value[0]) is dict:
        _last_form = _form_of(value[0])
    return value


def strings_from_bytes(raw: bytes | Array) -> Array:
    """Decode a tensor of strings to an array of bytes, dtype object, without decoding the strings themselves.

    Raises ValueError if it is another value, DecodeError if it is malformed.
    """
    message = wire.Value.FromString(bytes(raw))
    if message.elem_type != wire.VALUE_KIND_TENSOR or message.tensor_value.data_type != VALUE:
        raise ValueError("a value that is not a tensor of strings")
    return _objects(message.tensor_value.string_data).reshape(tuple(message.tensor_value.dims))


def padded(encoded: bytes, size: int) -> bytes:
    """Pad an encoded value to ``size`` bytes, at least PADDING_BYTES more than it has. Decoders skip the padding."""
    rest = size - len(encoded) - PADDING_BYTES
    length = bytes(rest >> shift & 0x7F | (0x80 if shift < 28 else 0) for shift in (0, 7, 14, 21, 28))
    return encoded + _SKIPPED_FIELD + length + bytes(rest)


class _FloatMaps:
    """Lists of maps from the same keys to floats, which classifiers answer with: only the floats differ in their bytes.

    To encode and decode them so takes a thirtieth of the time that messages take.
    """

    def __init__(self, keys: Sequence[Any], types: Sequence[type]) -> None:
        value = _message([dict.fromkeys(keys, 0.0)]).sequence_value
        first = value.SerializeToString()[len(_ELEMENTS) :]  # of the sequence: its first element
        before = _float_field(0.0)[: -_DOUBLE.size]
        start = len(first) - len(keys) * (len(before) + _DOUBLE.size)
        self._keys, self._types = tuple(keys), tuple(types)
        self._fixed = (first[: start + len(before)], *(before for _ in keys[1:]))
        self._row = struct.Struct(f"<{len(self._fixed[0])}sd" + f"{len(before)}sd" * (len(keys) - 1))

    def encoded(self, maps: Sequence[Value]) -> bytes | None:
        """The bytes of a list; None if it is of another form."""
        rows, fields = [self._head(len(maps))], [*self._fixed, *self._fixed]
        fields[::2] = self._fixed
        for each in maps:
            if type(each) is not dict or tuple(each) != self._keys or tuple(map(type, each)) != self._types:
                return None
            values = [*each.values()]
            if {*map(type, values)} != {float}:
                return None
            fields[1::2] = values
            rows.append(self._row.pack(*fields))
        return b"".join(rows)

    def decoded(self, raw: bytes) -> list[dict[Any, float]] | None:
        """The list that some bytes are; None if they are of another form."""
        # What is before the rows is shorter than one of them, so that the number of rows follows from the size.
        count = len(raw) // self._row.size
        head = self._head(count)
        if not count or len(raw) != len(head) + count * self._row.size or not raw.startswith(head):
            return None
        found = []
        for fields in self._row.iter_unpack(raw[len(head) :]):
            if fields[::2] != self._fixed:
                return None
            found.append(dict(zip(self._keys, fields[1::2], strict=True)))
        return found

    def _head(self, count: int) -> bytes:
        """Return what is before the maps of a list of so many."""
        rest = len(_ELEMENTS) + count * self._row.size
        length = []
        while rest > 0x7F:
            length.append(rest & 0x7F | 0x80)
            rest >>= 7
        return _SEQUENCE + bytes([*length, rest]) + _ELEMENTS


def _float_field(value: float) -> bytes:
    """A float as an element of a sequence of tensors."""
    return wire.SequenceValue(tensor_values=[_tensor_message(value)]).SerializeToString()


_SEQUENCE = wire.Value(elem_type=wire.VALUE_KIND_SEQUENCE, sequence_value=wire.SequenceValue()).SerializeToString()[:-1]
"""What is before the length of a sequence."""
_ELEMENTS = wire.SequenceValue(elem_type=wire.VALUE_KIND_OPTIONAL).SerializeToString()
"""What is before its elements."""
_MOST_KEYS = 4096
_last_form: _FloatMaps | None = None
"""The form of the last list of maps that was decoded, which the next one probably has."""


def _form_of(first: dict[Any, Value]) -> _FloatMaps | None:
    types = tuple(map(type, first))
    if (
        not 0 < len(first) <= _MOST_KEYS
        or {*types} not in ({int}, {str})
        or type(next(iter(first.values()))) is not float
    ):
        return None
    return _form(tuple(first), types)


@lru_cache(64)
def _form(keys: tuple[Any, ...], types: tuple[type, ...]) -> _FloatMaps:
    """The form of maps with these keys, of which ``types`` tell 1 from True."""
    return _FloatMaps(keys, types)


def _message(value: Value) -> wire.Value:
    if value is None:
        return wire.Value()
    if isinstance(value, list):
        sequence = wire.SequenceValue(
            elem_type=wire.VALUE_KIND_OPTIONAL, optional_values=[_message(item) for item in value]
        )
        return wire.Value(elem_type=wire.VALUE_KIND_SEQUENCE, sequence_value=sequence)
    if isinstance(value, dict):
        return wire.Value(elem_type=wire.VALUE_KIND_MAP, map_value=_map_message(value))
    return wire.Value(elem_type=wire.VALUE_KIND_TENSOR, tensor_value=_tensor_message(value))


def _map_message(value: dict[Any, Value]) -> wire.MapValue:
    """ONNX's own decoder reads maps whose values are tensors, and not such whose values are optionals."""
    keys = np.asarray(list(value))
    tensors = wire.SequenceValue(
        elem_type=wire.VALUE_KIND_TENSOR, tensor_values=[_tensor_message(item) for item in value.values()]
    )
    if keys.dtype.kind in "SU":
        texts = (key if isinstance(key, bytes) else key.encode() for key in value)
        return wire.MapValue(key_type=VALUE, string_keys=texts, values=tensors)
    return wire.MapValue(key_type=_number(keys), keys=map(int, value), values=tensors)


def _tensor_message(value: Value) -> wire.TensorValue:
    if type(value) is float:  # a map has many
        return wire.TensorValue(data_type=_FLOAT64, raw_data=_DOUBLE.pack(value))
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        texts = [text if isinstance(text, bytes) else text.encode() for text in array.reshape(-1).tolist()]
        return wire.TensorValue(dims=array.shape, data_type=VALUE, string_data=texts)
    number = _number(array)
    raw = array.astype(ELEMENT_TYPES[number], copy=False).tobytes()
    bits = PACKED_BITS.get(number)
    return wire.TensorValue(dims=array.shape, data_type=number, raw_data=_packed(raw, bits) if bits else raw)


def _number(array: Array) -> int:
    number = NUMBERS.get(array.dtype.newbyteorder("="))
    if number is None:
        raise ValueError(f"numpy's type {array.dtype} is no element type of ONNX")
    return number


def _value(message: wire.Value) -> Value:
    if message.elem_type == wire.VALUE_KIND_TENSOR:
        return _tensor(message.tensor_value)
    if message.elem_type == wire.VALUE_KIND_SEQUENCE:
        return _sequence(message.sequence_value)
    if message.elem_type == wire.VALUE_KIND_MAP:
        return _map(message.map_value)
    if message.elem_type == wire.VALUE_KIND_OPTIONAL:
        return _value(message.optional_value)
    return None


def _sequence(message: wire.SequenceValue) -> list[Value]:
    if message.elem_type == wire.VALUE_KIND_TENSOR:
        return [_tensor(item) for item in message.tensor_values]
    if message.elem_type == wire.VALUE_KIND_SEQUENCE:
        return [_sequence(item) for item in message.sequence_values]
    if message.elem_type == wire.VALUE_KIND_MAP:
        return [_map(item) for item in message.map_values]
    return [_value(item) for item in message.optional_values]


def _map(message: wire.MapValue) -> dict[Any, Value]:
    try:
        keys = [key.decode() for key in message.string_keys] if message.key_type == VALUE else list(message.keys)
    except UnicodeDecodeError as error:
        raise DecodeError(f"a key that is not UTF-8: {error}") from error
    if message.values.elem_type == wire.VALUE_KIND_TENSOR:
        values = [_map_value(item) for item in message.values.tensor_values]
    else:
        values = _sequence(message.values)
    if len(keys) != len(values):
        raise DecodeError(f"a map of {len(keys)} keys and {len(values)} values")
    return dict(zip(keys, values, strict=True))


def _map_value(message: wire.TensorValue) -> Value:
    if message.data_type == _FLOAT64 and not message.dims and len(message.raw_data) == _DOUBLE.size:
        return _DOUBLE.unpack(message.raw_data)[0]
    values = _tensor(message)
    return values if values.ndim else values.item()


def _tensor(message: wire.TensorValue) -> Array:
    shape = tuple(message.dims)
    try:
        if message.data_type == VALUE:
            return _objects([text.decode() for text in message.string_data]).reshape(shape)
        element = ELEMENT_TYPES[message.data_type]
        raw = message.raw_data or _raw(message, element.itemsize)
        bits = PACKED_BITS.get(message.data_type)
        elements = _unpacked(raw, bits, prod(shape)) if bits else np.frombuffer(raw, np.uint8)
        return elements.view(element).reshape(shape)
    except (KeyError, ValueError) as error:
        raise DecodeError(f"a tensor of type {message.data_type} and shape {list(shape)}: {error}") from error


def _raw(message: wire.TensorValue, item_size: int) -> bytes:
    """The elements of a tensor that has them in a field of their type."""
    if message.float_data:
        return np.array(message.float_data, "<f4").tobytes()
    if message.double_data:
        return np.array(message.double_data, "<f8").tobytes()
    if message.int64_data:
        return np.array(message.int64_data, "<i8").tobytes()
    if message.uint64_data:
        return np.array(message.uint64_data, "<u8").astype(f"<u{item_size}").tobytes()
    return np.array(message.int32_data, "<i4").astype(f"<u{item_size}").tobytes()


def _objects(items: Sequence[object]) -> Array:
    found = np.empty(len(items), object)
    found[:] = items
    return found


def _packed(raw: bytes, bits: int) -> bytes:
    """Elements of a byte each, whose lowest ``bits`` count, as ONNX packs them: the first in the lowest bits."""
    per_byte = 8 // bits
    elements = np.frombuffer(raw + bytes(-len(raw) % per_byte), np.uint8) & ((1 << bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    joined: Array = np.bitwise_or.reduce(elements.reshape(-1, per_byte) << shifts, axis=1)
    return joined.tobytes()


def _unpacked(raw: bytes, bits: int, count: int) -> Array:
    """Undo ``_packed`` for ``count`` elements."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    elements = np.frombuffer(raw, np.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)
    return elements.reshape(-1)[:count]
