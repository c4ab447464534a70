"""Random protobuf messages, made from their descriptors."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS: dict[int, tuple[int, int]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_MAX_DEPTH = 5


def fill(message: Message, source: random.Random, words: list[str], depth: int = 0) -> None:
    """Set some fields. Strings are mostly from ``words``; numbers are mostly small or at a limit of their range."""
    left_out = {field.name for choice in message.DESCRIPTOR.oneofs for field in choice.fields}
    for choice in message.DESCRIPTOR.oneofs:
        left_out -= {source.choice([field.name for field in choice.fields])}
    for field in message.DESCRIPTOR.fields:
        if field.name in left_out or source.random() < 0.3 or (depth >= _MAX_DEPTH and field.message_type is not None):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(message, field, source, words, depth)
        elif field.is_repeated:
            for _ in range(source.choice((0, 1, 1, 2, 3))):
                if field.message_type is not None:
                    fill(getattr(message, field.name).add(), source, words, depth + 1)
                else:
                    getattr(message, field.name).append(_value(field, source, words))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), source, words, depth + 1)
        else:
            setattr(message, field.name, _value(field, source, words))


def _fill_map(message: Message, field: Any, source: random.Random, words: list[str], depth: int) -> None:
    key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    entries = getattr(message, field.name)
    for _ in range(source.choice((0, 0, 1, 2))):
        if value.message_type is None:
            entries[_value(key, source, words)] = _value(value, source, words)
        else:
            fill(entries[_value(key, source, words)], source, words, depth + 1)


def _value(field: Any, source: random.Random, words: list[str]) -> Any:
    kind = field.cpp_type
    if kind in _INTEGERS:
        lowest, highest = _INTEGERS[kind]
        return max(lowest, source.choice((0, 1, 2, 3, 4, -1, lowest, highest, source.randint(lowest, highest))))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return source.random() < 0.5
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return source.choice(field.enum_type.values).number
    if kind != FieldDescriptor.CPPTYPE_STRING:
        return source.choice((0.0, 1.5, float("nan"), float("-inf")))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return source.randbytes(source.choice((0, 1, 4, 8, 8, 12, 17)))
    return source.choice((*words, *words, "", "\0", "é" * source.randint(1, 3000)))
