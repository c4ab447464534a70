"""The settings of the trace extension: those for all models, and those that single models have instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nnhal_service.serving import ErrorKind, ServingError

OFF, TIMESTAMPS, TENSORS = LEVELS = ("OFF", "TIMESTAMPS", "TENSORS")
TRITON, CHROME = MODES = ("triton", "chrome")
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "trace_file": ("",),
    "trace_level": (OFF,),
    "trace_rate": ("1000",),
    "trace_count": ("-1",),
    "log_frequency": ("0",),
    "trace_mode": (TRITON,),
}
DEFAULT_FILE = "trace.json"
_LOWEST = {"trace_rate": 1, "trace_count": -1, "log_frequency": 0}
_HIGHEST = 2**31 - 1
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
Settings = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """Parsed settings."""

    file: str
    """The file that traces go to; empty for none."""
    levels: frozenset[str]
    """What is traced; empty if nothing is."""
    rate: int
    """One in so many requests is traced."""
    count: int
    """How many more requests are traced; -1 for any number."""
    log_frequency: int
    """The traces of each file; 0 if files are written only when flushed."""
    mode: str
    """The format of files."""

    @classmethod
    def of(cls, settings: Settings) -> TraceConfig:
        return cls(
            settings["trace_file"][0],
            frozenset(settings["trace_level"]) - {OFF},
            int(settings["trace_rate"][0]),
            int(settings["trace_count"][0]),
            int(settings["log_frequency"][0]),
            settings["trace_mode"][0],
        )


class TraceTable:
    """Checks and keeps settings. For one thread at a time."""

    def __init__(self, is_known: Callable[[str], bool], has_files: bool, start: Settings) -> None:
        """``is_known`` says whether a model exists, ``has_files`` whether files may be written. ``start`` are the
        settings that differ from the defaults.

        Raises ServingError if a value is wrong.
        """
        self._is_known = is_known
        self._has_files = has_files
        for key, values in start.items():
            self._check(key, values)
        files = {"trace_file": (DEFAULT_FILE,)} if has_files else {}
        self._start: dict[str, Sequence[str]] = {
            **DEFAULTS,
            **files,
            **{key: values for key, values in start.items() if values},
        }
        self._all: dict[str, Sequence[str]] = {}
        self._models: dict[str, dict[str, Sequence[str]]] = {}

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self._models)

    def of(self, model_name: str) -> dict[str, Sequence[str]]:
        """Return all settings of a model, or of all models if the name is empty."""
        return {**self._start, **self._all, **self._models.get(model_name, {})}

    def change(self, model_name: str, changes: Settings) -> None:
        """Change settings of a model, or of all models; a setting without values is reset.

        Raises ServingError, and then changes nothing: NOT_FOUND if the model is unknown, INVALID_ARGUMENT if a setting
        is unknown or a value wrong, UNSUPPORTED for a file if files may not be written.
        """
        if model_name and not self._is_known(model_name):
            message = f"Request for unknown model: '{model_name}' is not found"
            raise ServingError(ErrorKind.NOT_FOUND, message)
        for key, values in changes.items():
            self._check(key, values)
        own = self._models.get(model_name, {}) if model_name else self._all
        kept: dict[str, Sequence[str]] = {key: tuple(values) for key, values in {**own, **changes}.items() if values}
        if not model_name:
            self._all = kept
        elif kept:
            self._models[model_name] = kept
        else:
            self._models.pop(model_name, None)

    def _check(self, key: str, values: Sequence[str]) -> None:
        if key not in DEFAULTS:
            _refuse(f"trace setting '{key}' is unknown, expected one of {', '.join(DEFAULTS)}")
        if not values:
            return
        if key == "trace_level":
            if any(value not in LEVELS for value in values) or (OFF in values and len(values) > 1):
                _refuse(f"trace_level is {list(values)}, expected OFF, or TIMESTAMPS and TENSORS or one of them")
        elif len(values) != 1:
            _refuse(f"{key} has {len(values)} values, expected one")
        elif key == "trace_file":
            self._check_file(values[0])
        elif key == "trace_mode":
            if values[0] not in MODES:
                _refuse(f"trace_mode is {values[0]!r}, expected one of {', '.join(MODES)}")
        elif not _LOWEST[key] <= _number(values[0]) <= _HIGHEST:
            _refuse(f"{key} is {values[0]!r:.40}, expected an integer from {_LOWEST[key]} to {_HIGHEST}")

    def _check_file(self, name: str) -> None:
        if not self._has_files:
            message = "trace files can not be written: the server was started without a directory for them"
            raise ServingError(ErrorKind.UNSUPPORTED, message)
        if not _FILE_NAME.fullmatch(name):
            _refuse(
                f"trace_file is {name[:40]!r}, expected a plain file name: at most 128 of A-Z, a-z, 0-9, '.', '_' and "
                "'-', the first neither '.' nor '-'; the server has a directory for it"
            )


def _number(text: str) -> int:
    """Parse a number; return one that is out of every range if the text is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else _HIGHEST + 1


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
