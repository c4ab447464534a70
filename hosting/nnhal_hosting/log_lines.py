"""Lines of the logs, as structlog writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TextIO, cast

import structlog

from nnhal_hosting.kept_lines import KEPT
from nnhal_hosting.nonblocking_stderr import STDERR

_to_microseconds = structlog.processors.TimeStamper(fmt="iso")
_UNSAID = frozenset(("event", "process", "level", "exc_info"))
"""What the text of a kept line leaves out, or has in a form of its own."""
_to_seconds = structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True)


def get_logger(name: str) -> Any:
    return structlog.get_logger(name)


def format_lines(process: str, as_json: bool, whole_seconds: Callable[[], bool]) -> None:
    """Configure structlog: lines for people, or JSON, which name the process.

    ``whole_seconds`` says for each line whether its instant has whole seconds or microseconds.
    """

    def named(
        _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {"process": process, **event}

    def stamped(
        logger: structlog.typing.WrappedLogger, method_name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return (_to_seconds if whole_seconds() else _to_microseconds)(logger, method_name, event)

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            named,
            structlog.processors.add_log_level,
            _keep,
            stamped,
            _json_tracebacks() if as_json else structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("notset"),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, STDERR)),
        cache_logger_on_first_use=True,
    )


def _keep(
    logger: structlog.typing.WrappedLogger, method_name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    values = [f"{key}={_worded(value)}" for key, value in event.items() if key not in _UNSAID]
    text = " ".join((str(event.get("event", "")), *values))
    if event.get("exc_info"):
        said = structlog.processors.format_exc_info(logger, method_name, {"exc_info": event["exc_info"]})
        text = f"{text}\n{said.get('exception', '')}".rstrip("\n")
    KEPT.add(time.time_ns(), str(event["level"]), text, str(event.get("request_id", "")))
    return event


def _worded(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)


def _json_tracebacks() -> structlog.typing.Processor:
    """Without the values of variables: they may be anything, tokens included."""
    return structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
