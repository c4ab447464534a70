"""Mutations of protobuf messages by their descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from google.protobuf.message import DecodeError, EncodeError, Message

from tests.fuzz.mutators.octets import mutate_octets
from tests.support.extremes import Extreme, extremes
from tests.support.random_messages import fill

_MANY = 40
_MOST_VISITED = 400
"""Messages within a message of which one is changed."""
_WORDS = ["", "x", "name", "0", "\x00"]


class MessageMutator:
    """Changes messages of one type. Bytes that are none are changed as bytes."""

    def __init__(self, kind: type[Message]) -> None:
        self._kind = kind

    def __call__(self, data: bytes, source: Random) -> bytes:
        message = self._kind()
        try:
            message.ParseFromString(data)
        except DecodeError:
            return mutate_octets(data, source)
        if source.random() < 0.1:
            return mutate_octets(data, source)
        self.change(message, source)
        try:
            return message.SerializeToString()
        except (EncodeError, UnicodeError):
            return data

    def change(self, message: Message, source: Random) -> None:
        visited = list(_messages(message, _MOST_VISITED))
        chosen = source.choice(visited)
        match source.randrange(4):
            case 0 if found := _all_extremes(chosen.DESCRIPTOR):
                source.choice(found).apply(chosen)
            case 1:
                fill(chosen, source, _WORDS, depth=3)
            case 2:
                like = [each for each in visited if each.DESCRIPTOR is chosen.DESCRIPTOR]
                _replace(chosen, source.choice(like))
            case _:
                _change_field(chosen, source)


@cache
def _all_extremes(kind: Any) -> list[Extreme]:
    return [each for each in extremes(kind, _MANY) if len(each.path) <= 2]


def _messages(message: Any, most: int) -> Iterator[Message]:
    """The message and those in it, a level after the other."""
    level = [message]
    while level and most > 0:
        yield from level[:most]
        most -= len(level)
        level = [inner for each in level for inner in _inner(each)]


def _inner(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from value.values()
        elif field.is_repeated:
            yield from value
        else:
            yield value


def _replace(message: Any, other: Any) -> None:
    if message is not other:
        copy = type(other)()
        copy.CopyFrom(other)
        message.CopyFrom(copy)


def _change_field(message: Any, source: Random) -> None:
    """Remove a field, or change the order or the number of its entries."""
    fields = message.ListFields()
    if not fields:
        fill(message, source, _WORDS, depth=4)
        return
    field, value = source.choice(fields)
    if not field.is_repeated or (field.message_type is not None and field.message_type.GetOptions().map_entry):
        if field.type == field.TYPE_BYTES and source.random() < 0.7:
            setattr(message, field.name, mutate_octets(value, source))
        else:
            message.ClearField(field.name)
        return
    first, second = source.randrange(len(value)), source.randrange(len(value))
    match source.randrange(4):
        case 0:
            del value[first]
        case 1:
            value.extend([value[first]] * source.choice((1, 1, 2, _MANY)))
        case 2 if field.message_type is None:
            value[first], value[second] = value[second], value[first]
        case 2:
            _replace(value[first], value[second])
        case _:
            del value[first:]
