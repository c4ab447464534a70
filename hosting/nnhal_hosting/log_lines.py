"""How structlog writes the lines of the logs."""

from __future__ import annotations

import sys
from typing import Any

import structlog

from nnhal_hosting.logs import SHOWN

_to_microseconds = structlog.processors.TimeStamper(fmt="iso")
_to_seconds = structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True)


def get_logger(name: str) -> Any:
    """The logger of a module. Configures structlog first if the process has said how."""
    if SHOWN.format is not None:
        format_lines(*SHOWN.format)
        SHOWN.format = None
    return structlog.get_logger(name)


def format_lines(process: str, as_json: bool) -> None:
    """Configure structlog: lines for people, or JSON, which name the process."""

    def named(
        _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {"process": process, **event}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            named,
            structlog.processors.add_log_level,
            _stamp,
            _json_tracebacks() if as_json else structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("notset"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _stamp(
    logger: structlog.typing.WrappedLogger, method_name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return (_to_seconds if SHOWN.whole_seconds else _to_microseconds)(logger, method_name, event)


def _json_tracebacks() -> structlog.typing.Processor:
    """Without the values of variables: they may be anything, tokens included."""
    return structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
