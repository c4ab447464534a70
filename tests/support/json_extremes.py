"""Extremes of JSON: each part of an object replaced by a text that is too large, too deep, or of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

TEXTS = (
    *("0", "-1", "1.5", "2147483648", "9223372036854775808", "18446744073709551616", "-9223372036854775809"),
    *("1e308", "1e400", "NaN", "Infinity", "9" * 5000, '"' + "9" * 5000 + '"', "null", "true", '""', '"x"'),
    *('"' + "x" * 20_000 + '"', r'"\ud800"', r'"\u0000"', "[]", "{}", "[2147483648,2147483648]"),
    *("[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000, "[" + ",".join(["1"] * 100_000) + "]"),
    *("[" + ",".join(["[1]"] * 3000) + "]", "[" + ",".join(["{}"] * 3000) + "]"),
)
_HERE = "the place of an extreme"


def json_extremes(content: Any) -> Iterator[tuple[str, bytes]]:
    """Yield every replacement: where and what, and the whole text."""
    for path in _paths(content):
        text = json.dumps(_replaced(content, path))
        for extreme in TEXTS:
            where = ".".join(map(str, path)) or "all"
            yield f"{where}={extreme[:40]}", text.replace(json.dumps(_HERE), extreme).encode()


def _paths(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield from _paths(value, (*path, key))


def _replaced(content: Any, path: tuple[str | int, ...]) -> Any:
    if not path:
        return _HERE
    copy = content.copy()
    copy[path[0]] = _replaced(content[path[0]], path[1:])
    return copy
