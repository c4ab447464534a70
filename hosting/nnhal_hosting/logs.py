"""Structured logs on standard error, for every process of nnhal.

structlog writes the lines. It is imported when the first line is to be shown, which in most processes is never.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

LEVELS = ("debug", "info", "warning", "error", "critical")
"""From the least to the most important."""


@dataclass(slots=True)
class Shown:
    """Levels and libraries that the process's logs show."""

    levels: frozenset[str]
    whole_seconds: bool = False
    format: tuple[str, bool] | None = None
    """The name of the process, and whether lines are JSON, until structlog is configured accordingly."""


SHOWN = Shown(frozenset(LEVELS))


def levels_from(level: str) -> frozenset[str]:
    """A level and all that are more important. Raises ValueError for an unknown one."""
    return frozenset(LEVELS[LEVELS.index(level.lower()) :])


def show_logs(levels: Collection[str], whole_seconds: bool = False) -> None:
    """Say which levels are shown from now on, and whether instants have whole seconds or microseconds."""
    SHOWN.levels, SHOWN.whole_seconds = frozenset(levels), whole_seconds


def configure_logs(process: str, level: str, as_json: bool) -> None:
    """Set up logging once, at the start of a process. Every line says which process wrote it.

    If a fault such as SIGSEGV ends the process, it first writes where each of its threads is.
    """
    show_logs(levels_from(level))
    SHOWN.format = (process, as_json)
    contract = logging.getLogger("nnhal")
    contract.handlers, contract.propagate = [_Lines()], False
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # there is no standard error
        faulthandler.enable()


def shown_level() -> str:
    """The least important level that is shown."""
    return next((level for level in LEVELS if level in SHOWN.levels), LEVELS[-1])


class Logger:
    """Writes lines of what happened, an event and its values, if their level is shown."""

    __slots__ = ("_lines", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: Any = None

    def debug(self, event: str, **values: object) -> None:
        self._write("debug", event, values)

    def info(self, event: str, **values: object) -> None:
        self._write("info", event, values)

    def warning(self, event: str, **values: object) -> None:
        self._write("warning", event, values)

    def error(self, event: str, **values: object) -> None:
        self._write("error", event, values)

    def exception(self, event: str, **values: object) -> None:
        """Write an error with the traceback of the exception that is being handled."""
        self._write("error", event, {"exc_info": True, **values})

    def critical(self, event: str, **values: object) -> None:
        self._write("critical", event, values)

    def _write(self, level: str, event: str, values: dict[str, object]) -> None:
        if level not in SHOWN.levels:
            return
        if self._lines is None:
            try:
                from nnhal_hosting import log_lines
            except (OSError, ImportError, MemoryError):
                return  # without a free descriptor no module can be read: the line is lost, but not its writer
            if SHOWN.format is not None:
                log_lines.format_lines(*SHOWN.format, lambda: SHOWN.whole_seconds)
                SHOWN.format = None
            self._lines = log_lines.get_logger(self._name)
        getattr(self._lines, level)(event, **values)


class _Lines(logging.Handler):
    """Writes what ``nnhal`` itself logs, which knows Python's logging only."""

    def emit(self, record: logging.LogRecord) -> None:
        write = getattr(Logger(record.name), record.levelname.lower())
        write(record.getMessage(), **({"exc_info": record.exc_info} if record.exc_info else {}))


def get_logger(name: str) -> Logger:
    return Logger(name)
