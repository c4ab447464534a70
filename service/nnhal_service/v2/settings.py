"""Trace and log settings, checked and kept; whoever traces and logs is told of each change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import LogSetting
from nnhal_service.v2.tensors import refuse

TRACE_LEVELS = ("OFF", "TIMESTAMPS", "TENSORS")
LOG_FORMATS = ("default", "ISO8601")
TRACE_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "trace_file": ("",),
    "trace_level": ("OFF",),
    "trace_rate": ("1000",),
    "trace_count": ("-1",),
    "log_frequency": ("0",),
}
LOG_DEFAULTS: Mapping[str, LogSetting] = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
_LOWEST = {"trace_rate": 1, "trace_count": -1, "log_frequency": 0}
_HIGHEST = 2**31 - 1
TraceListener = Callable[[str, Mapping[str, Sequence[str]]], None]
LogListener = Callable[[Mapping[str, LogSetting]], None]


class StoredTraceSettings:
    """Of all models, and what single models have instead. Safe to use from several threads."""

    def __init__(
        self,
        is_known: Callable[[str], bool],
        changed: TraceListener,
        start: Mapping[str, Sequence[str]] = TRACE_DEFAULTS,
    ) -> None:
        """``is_known`` says whether there is a model; ``changed`` gets its name, or none, and all of its settings."""
        self._is_known = is_known
        self._changed = changed
        self._start = {**TRACE_DEFAULTS, **start}
        self._all: dict[str, Sequence[str]] = {}
        self._models: dict[str, dict[str, Sequence[str]]] = {}
        self._lock = threading.Lock()

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """As ``TraceSettings.update``. NOT_FOUND for a model that is not known, INVALID_ARGUMENT for a wrong value,
        UNSUPPORTED for the file, which clients may not choose; nothing changes then.
        """
        if model_name and not self._is_known(model_name):
            message = f"Request for unknown model: '{model_name}' is not found"
            raise ServingError(ErrorKind.NOT_FOUND, message)
        for key, values in changes.items():
            _check_trace(key, values)
        with self._lock:
            own = self._models.get(model_name, {}) if model_name else self._all
            kept = {key: values for key, values in {**own, **changes}.items() if values}
            if not model_name:
                self._all = kept
            elif kept:
                self._models[model_name] = kept
            else:
                self._models.pop(model_name, None)
            settings = {**self._start, **self._all, **(kept if model_name else {})}
            if changes:
                self._changed(model_name, settings)
        return settings


class StoredLogSettings:
    """Safe to use from several threads."""

    def __init__(self, changed: LogListener, start: Mapping[str, LogSetting] = LOG_DEFAULTS) -> None:
        """``changed`` gets all settings."""
        self._changed = changed
        self._settings = {**LOG_DEFAULTS, **start}
        self._lock = threading.Lock()

    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        """As ``LogSettings.update``. INVALID_ARGUMENT for a wrong value, UNSUPPORTED for the file, which clients may
        not choose; nothing changes then.
        """
        for key, value in changes.items():
            _check_log(key, value)
        with self._lock:
            self._settings = {**self._settings, **changes}
            if changes:
                self._changed(self._settings)
            return self._settings


def _check_trace(key: str, values: Sequence[str]) -> None:
    if key not in TRACE_DEFAULTS:
        raise refuse(f"trace setting '{key}' is unknown, expected one of {', '.join(TRACE_DEFAULTS)}")
    if key == "trace_file":
        _refuse_file("trace")
    if key == "trace_level":
        wrong = [value for value in values if value not in TRACE_LEVELS]
        if wrong or ("OFF" in values and len(values) > 1):
            raise refuse(f"trace_level is {list(values)}, expected OFF, or TIMESTAMPS and TENSORS or one of them")
    elif values and not (len(values) == 1 and _LOWEST[key] <= _number(values[0]) <= _HIGHEST):
        raise refuse(f"{key} is {list(values)}, expected an integer from {_LOWEST[key]} to {_HIGHEST}")


def _check_log(key: str, value: LogSetting) -> None:
    if key not in LOG_DEFAULTS:
        raise refuse(f"log setting '{key}' is unknown, expected one of {', '.join(LOG_DEFAULTS)}")
    if key == "log_file":
        _refuse_file("log")
    if key == "log_format":
        if value not in LOG_FORMATS:
            raise refuse(f"log_format is {value!r}, expected one of {', '.join(LOG_FORMATS)}")
    elif key == "log_verbose_level":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST:
            raise refuse(f"log_verbose_level is {value!r}, expected an integer from 0 on")
    elif not isinstance(value, bool):
        raise refuse(f"{key} is {value!r}, expected true or false")


def _number(text: str) -> int:
    """What a text says; a number that nothing takes where it says none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else _HIGHEST + 1


def _refuse_file(what: str) -> NoReturn:
    message = f"{what} file location can not be updated through network protocol"
    raise ServingError(ErrorKind.UNSUPPORTED, message)
