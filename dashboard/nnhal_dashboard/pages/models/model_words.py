"""The configuration and the statistics of a model for readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def config_words(config_json: str) -> list[tuple[str, str]]:
    """Return the settings of a configuration, as paths and values; those that say nothing are left out."""
    return list(_settings("", json.loads(config_json)))


def statistics_words(statistics_json: str) -> list[tuple[str, int, float]]:
    """Return what was counted since the model was loaded: its name, how often, and the mean time in nanoseconds."""
    (statistics,) = json.loads(statistics_json)["model_stats"]
    counted = statistics["inference_stats"].items()
    rows = [(name.replace("_", " "), int(each["count"]), int(each["ns"])) for name, each in counted]
    return [(name, count, total / count) for name, count, total in rows if count]


def indented(text: str) -> str:
    """Return JSON for readers."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def _settings(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _settings(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _settings(f"{path}[{number}]", each)
    elif isinstance(value, list):
        if value:
            yield path, ", ".join(map(_word, value))
    elif value not in ("", None, False, 0) and value not in ("FORMAT_NONE", "KIND_AUTO"):
        yield path, _word(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
