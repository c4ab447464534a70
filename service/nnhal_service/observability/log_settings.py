"""The settings of the logging extension, and the log line of each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from nnhal_hosting.logs import get_logger, levels_from, show_logs
from nnhal_service.serving import ErrorKind, Finished, OfRequests, ServingError

LogSetting = bool | int | str
LogChanges = Mapping[str, LogSetting]
FORMATS = ("default", "ISO8601")
_KEYS = ("log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format")
_MOST_VERBOSE = 2**31 - 1
_log = get_logger(__name__)


class RuntimeLogSettings:
    """The log settings of this process. Safe to use from several threads.

    All verbose levels from 1 on show the same lines, those of level debug. Format ISO8601, which is Triton's, has whole
    seconds.
    """

    def __init__(self, level: str, log_file: str = "", changed: Callable[[LogChanges], None] = lambda _: None) -> None:
        """``level`` is the lowest level that is logged; ``log_file`` is empty for standard error. ``changed`` is called
        with all settings after each change.

        Raises ValueError if the level is unknown.
        """
        self._changed = changed
        self._lock = threading.Lock()
        self._settings: dict[str, LogSetting] = {
            "log_file": log_file,
            **_settings_of(level),
            "log_format": FORMATS[0],
        }
        self.is_verbose = bool(self._settings["log_verbose_level"])

    def update(self, changes: LogChanges) -> LogChanges:
        """Change settings, and return all settings after the change.

        Raises ServingError, and then changes nothing: INVALID_ARGUMENT if a setting is unknown or a value wrong,
        UNSUPPORTED for the file, which clients may not choose.
        """
        for key, value in changes.items():
            _check(key, value)
        if not changes:
            return dict(self._settings)
        settings = self.adopt(changes)
        self._changed(settings)
        return settings

    def set_level(self, level: str) -> None:
        """Log from a level on. Raises ValueError if it is unknown."""
        self.update(_settings_of(level))

    def adopt(self, settings: LogChanges) -> LogChanges:
        """Change settings that another process has checked, and return all settings."""
        with self._lock:
            self._settings.update(settings)
            self._apply()
            return dict(self._settings)

    def _apply(self) -> None:
        settings = self._settings
        self.is_verbose = bool(settings["log_verbose_level"])
        levels = {name for name in ("info", "warning", "error") if settings[f"log_{name}"]} | {"critical"}
        show_logs(levels | {"debug"} if self.is_verbose else levels, settings["log_format"] == "ISO8601")


class RequestLog(OfRequests):
    """An observer that logs each request at verbose levels."""

    def __init__(self, settings: RuntimeLogSettings) -> None:
        self._settings = settings

    def finished(self, finished: Finished) -> None:
        if not self._settings.is_verbose:
            return
        line = {
            "model": finished.model_name,
            "version": finished.model_version,
            "request_id": finished.request.id,
            "batch_size": finished.batch_size,
            "request_us": (finished.ended_ns - finished.arrived_ns) // 1000,
        }
        timing = finished.timing
        if timing is not None:
            line["queue_us"] = (timing.input_started_ns - timing.queued_ns) // 1000
            line["compute_us"] = (timing.output_ended_ns - timing.input_started_ns) // 1000
            _log.debug("request", **line)
        elif finished.error is not None and finished.reason is not None:
            _log.debug("request failed", **line, reason=finished.reason.value, error=finished.error.message)


def _settings_of(level: str) -> dict[str, LogSetting]:
    levels = levels_from(level)
    return {
        "log_info": "info" in levels,
        "log_warning": "warning" in levels,
        "log_error": "error" in levels,
        "log_verbose_level": int("debug" in levels),
    }


def _check(key: str, value: LogSetting) -> None:
    if key not in _KEYS:
        raise _refuse(f"log setting {key!r} is unknown, expected one of {', '.join(_KEYS)}")
    if key == "log_file":
        raise ServingError(ErrorKind.UNSUPPORTED, "log file location can not be updated through network protocol")
    if key == "log_format":
        if value not in FORMATS:
            raise _refuse(f"log_format is {value!r}, expected one of {', '.join(FORMATS)}")
    elif key == "log_verbose_level":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_VERBOSE:
            raise _refuse(f"log_verbose_level is {value!r}, expected an integer from 0 to {_MOST_VERBOSE}")
    elif not isinstance(value, bool):
        raise _refuse(f"{key} is {value!r}, expected true or false")


def _refuse(message: str) -> ServingError:
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)
