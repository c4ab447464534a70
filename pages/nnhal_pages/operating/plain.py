"""Messages of the wire, and descriptions in the HAL's own types, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """All fields by name, unset ones too. Unset messages are None, enumerators are named as in "running"."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def plain_value(value: Any) -> Any:
    """A dataclass with what it holds: enumerators by name, and sets in order. Numbers and texts stay as they are."""
    if is_dataclass(value):
        return {field.name: plain_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(plain_value(key)): plain_value(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain_value, value))
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return value


def enumerator(field: Any, number: int) -> str:
    """The name of an enumerator without the name of its enumeration, in small letters; empty for an unspecified one."""
    known = field.enum_type.values_by_number.get(number)
    if known is None:
        return str(number)
    prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
    name = known.name.removeprefix(prefix).lower()
    return "" if name == "unspecified" else name


def _value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return {str(key): _one(entry.fields_by_name["value"], item) for key, item in value.items()}
        return [_one(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type is not None:
        return enumerator(field, value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value
