"""Structured logs on standard error, for every process of nnhal."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

import structlog

LEVELS = ("debug", "info", "warning", "error", "critical")
"""From the least to the most important."""


@dataclass(slots=True)
class _Shown:
    """What the process's logs show."""

    levels: frozenset[str]
    whole_seconds: bool = False


_shown = _Shown(frozenset(LEVELS))
_to_microseconds = structlog.processors.TimeStamper(fmt="iso")
_to_seconds = structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True)


def levels_from(level: str) -> frozenset[str]:
    """A level and all that are more important. Raises ValueError for an unknown one."""
    return frozenset(LEVELS[LEVELS.index(level.lower()) :])


def show_logs(levels: Collection[str], whole_seconds: bool = False) -> None:
    """Say which levels are shown from now on, and whether instants have whole seconds or microseconds."""
    _shown.levels, _shown.whole_seconds = frozenset(levels), whole_seconds


def configure_logs(process: str, level: str, as_json: bool) -> None:
    """Set up logging once, at the start of a process. Every line says which process wrote it."""
    show_logs(levels_from(level))
    structlog.configure(
        processors=[
            _drop_hidden,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _stamp,
            _json_tracebacks() if as_json else structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("notset"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def _drop_hidden(
    _: structlog.typing.WrappedLogger, method_name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if method_name not in _shown.levels:
        raise structlog.DropEvent
    return event


def _stamp(
    logger: structlog.typing.WrappedLogger, method_name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return (_to_seconds if _shown.whole_seconds else _to_microseconds)(logger, method_name, event)


def _json_tracebacks() -> structlog.typing.Processor:
    """Without the values of variables: they may be anything, tokens included."""
    return structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
