"""JSON as text: written so that a person can read it and so that equal files are equal bytes, and read strictly."""

from __future__ import annotations

import json
from typing import Any


def to_text(value: Any) -> str:
    """Return JSON with a line for each member of an object; lists of plain values stay on one line."""
    return _lines(value, 0) + "\n"


def parse(text: str) -> Any:
    """Return what a text says. Raises ValueError if it is no JSON, or an object has a key twice."""
    return json.loads(text, object_pairs_hook=_object)


def _lines(value: Any, depth: int) -> str:
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict) and value:
        members = (f"{json.dumps(key)}: {_lines(each, depth + 1)}" for key, each in value.items())
        return "{" + inner + f",{inner}".join(members) + outer + "}"
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return "[" + inner + f",{inner}".join(_lines(each, depth + 1) for each in value) + outer + "]"
    return json.dumps(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return found
