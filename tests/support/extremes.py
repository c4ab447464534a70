"""Extremes of protobuf messages: each field of a schema at the ends of its type, with a long text or many entries.

The schema is walked by its descriptors, so that a field that is added later is tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
MANY = 20_000
"""How many entries a list gets."""
LONG = 50_000
"""How long a text gets, in characters."""
_MOST_VISITS = 2
"""How often a message may contain itself on the way to a field."""

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
_NUMBERS = (_RANGES.keys() - {FieldDescriptor.CPPTYPE_ENUM}) | {
    FieldDescriptor.CPPTYPE_FLOAT,
    FieldDescriptor.CPPTYPE_DOUBLE,
}
_INTEGERS = (
    *(0, 1, -1, 99, 100_000, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, 2**64 - 1),
    *(-(2**31), -(2**63)),
)
_FLOATS = (0.0, -1.0, 1e-300, 1e308, math.inf, -math.inf, math.nan)
_TEXTS = ("", "x" * LONG, "9" * LONG, "18446744073709551615", "-1", "nan", "1e308", "\0", "/dev/shm/x", "{}" * 10, "é")
_BYTES = (b"", b"\xff" * 7, bytes(LONG))


@dataclass(frozen=True, slots=True)
class Extreme:
    """One field of a message, and what it is set to."""

    path: tuple[FieldDescriptor, ...]
    value: Any
    count: int = 0
    """Of a list, how many more entries it gets; 0 if its first entry is replaced."""

    def __str__(self) -> str:
        value = repr(self.value)
        where = ".".join(field.name for field in self.path)
        return f"{where}={value[:40]}" + (f" x{self.count}" if self.count else "")

    def apply(self, message: Message) -> None:
        """Set the field in a message: in the first entry of each list on the way, which is made if there is none."""
        for field in self.path[:-1]:
            message = _first(message, field)
        _set(message, self.path[-1], self.value, self.count)

    def applied(self, message: M) -> M:
        """Return a copy of a message in which the field is set."""
        changed = type(message)()
        changed.CopyFrom(message)
        self.apply(changed)
        return changed


def extremes(kind: Descriptor, many: int = MANY, path: tuple[FieldDescriptor, ...] = ()) -> Iterator[Extreme]:
    """Yield all extremes of a message, those of the messages in it included."""
    for field in kind.fields:
        here = (*path, field)
        inner = _value_field(field)
        if inner.message_type is None:
            yield from _of_scalar(here, inner, many)
            continue
        if field.is_repeated:
            yield Extreme(here, None, many)
        if sum(step.message_type is field.message_type for step in path) < _MOST_VISITS:
            yield from extremes(inner.message_type, many, here)


def numeric_fields(kind: Descriptor, seen: set[str] | None = None) -> Iterator[FieldDescriptor]:
    """Yield the fields that hold numbers, in a message and all that it contains, once each."""
    seen = set() if seen is None else seen
    if kind.full_name in seen:
        return
    seen.add(kind.full_name)
    for field in kind.fields:
        if field.message_type is not None:
            yield from numeric_fields(field.message_type, seen)
        elif field.cpp_type in _NUMBERS:
            yield field


def _of_scalar(path: tuple[FieldDescriptor, ...], inner: FieldDescriptor, many: int) -> Iterator[Extreme]:
    values = _values(inner)
    for value in values:
        yield Extreme(path, value)
    if path[-1].is_repeated:
        yield Extreme(path, values[0], many)
        yield Extreme(path, min(values, key=str), many)


def _values(field: FieldDescriptor) -> Sequence[Any]:
    if field.enum_type is not None and field.enum_type.is_closed:
        return [value.number for value in field.enum_type.values]
    if field.cpp_type in _RANGES:
        lowest, highest = _RANGES[field.cpp_type]
        return [number for number in _INTEGERS if lowest <= number <= highest]
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return (True, False)
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return _FLOATS
        case _:
            return _BYTES if field.type == FieldDescriptor.TYPE_BYTES else _TEXTS


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value_field(field: FieldDescriptor) -> FieldDescriptor:
    """Return what a field holds: the value of a map, else itself."""
    entry: Any = field.message_type
    value: FieldDescriptor = entry.fields_by_name["value"] if _is_map(field) else field
    return value


def _key(field: FieldDescriptor, number: int) -> Any:
    entry: Any = field.message_type
    key: FieldDescriptor = entry.fields_by_name["key"]
    return f"key{number}" if key.cpp_type == FieldDescriptor.CPPTYPE_STRING else number


def _first(message: Any, field: FieldDescriptor) -> Any:
    """The message in a field: of a list or a map the first, which is made if there is none."""
    inner = getattr(message, field.name)
    if _is_map(field):
        return inner[next(iter(inner), _key(field, 1))]
    if field.is_repeated:
        return inner[0] if inner else inner.add()
    inner.SetInParent()
    return inner


def _set(message: Any, field: FieldDescriptor, value: Any, count: int) -> None:
    inner = getattr(message, field.name)
    if _is_map(field):
        for number in range(1, count + 2):
            key = _key(field, number) if count else next(iter(inner), _key(field, number))
            if value is None:
                inner[key].SetInParent()
            else:
                inner[key] = value
    elif value is None:
        first = inner[0] if inner else inner.add()
        inner.extend([first] * count)
    elif count:
        inner.extend([value] * count)
    elif field.is_repeated:
        inner[:] = [value, *inner[1:]]
    else:
        setattr(message, field.name, value)
