"""Forms of values in the nodes file: lists of strings for almost everything, with an empty string for what is absent.

In Python, attributes are integers, numbers and words. Only JSON text has them as strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

_INTEGER = r"^-?[0-9]+$"


def digits(value: float) -> str:
    """Write a number with 17 significant digits, from which a double is read back exactly."""
    return format(value, ".17g")


def _strings(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"got {value!r}, expected a list of strings")
    return value


def _one_string(value: object) -> str:
    strings = _strings(value)
    if len(strings) != 1:
        raise ValueError(f"got {value!r}, expected a list of one string")
    return strings[0]


def _integer(text: str) -> int:
    number = text[1:] if text.startswith("-") else text
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"got {text!r}, expected an integer")
    return int(text)


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(f"got {text!r}, expected 0 or 1")
    return text == "1"


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"got {text!r}, expected a number") from None


def _plain_integer(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f"got {value!r}, expected an integer as a string")
    return _integer(value)


def _of_json(read: Callable[[Any], object]) -> BeforeValidator:
    """Read the strings of a file; values in Python are taken as they are."""

    def validate(value: object, info: ValidationInfo) -> object:
        return read(value) if info.mode == "json" else value

    return BeforeValidator(validate)


def _list_schema(pattern: str | None = None, most: int | None = None) -> WithJsonSchema:
    items: dict[str, Any] = {"type": "string"} | ({"pattern": pattern} if pattern else {})
    limits = {"minItems": most, "maxItems": most} if most else {}
    return WithJsonSchema({"type": "array", "items": items, **limits})


Word = Annotated[str, _of_json(_one_string), PlainSerializer(lambda value: [value]), _list_schema(None, 1)]
"""A word: ``["NHWC"]``."""
Words = Annotated[tuple[str, ...], _of_json(_strings), PlainSerializer(list), _list_schema()]
"""Words: ``["float32"]``."""
Integer = Annotated[
    int,
    _of_json(lambda value: _integer(_one_string(value))),
    PlainSerializer(lambda value: [str(value)]),
    _list_schema(_INTEGER, 1),
]
"""An integer: ``["1"]``."""
Integers = Annotated[
    tuple[int, ...],
    _of_json(lambda value: [_integer(each) for each in _strings(value)]),
    PlainSerializer(lambda value: [str(each) for each in value]),
    _list_schema(_INTEGER),
]
"""Integers, as many as there are: ``["1", "2"]``."""
Flag = Annotated[
    bool,
    _of_json(lambda value: _flag(_one_string(value))),
    PlainSerializer(lambda value: [str(int(value))]),
    _list_schema("^[01]$", 1),
]
"""A boolean: ``["0"]``."""
Real = Annotated[
    float,
    _of_json(lambda value: _real(_one_string(value))),
    PlainSerializer(lambda value: [digits(value)]),
    _list_schema(None, 1),
]
"""A number with 17 significant digits: ``["1.0000000000000001e-05"]``."""
Count = Annotated[
    int,
    _of_json(_plain_integer),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+$"}),
]
"""A count as a plain string: ``"3"``."""


def schema_of_words(*words: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": {"enum": list(words)}, "minItems": 1, "maxItems": 1})
