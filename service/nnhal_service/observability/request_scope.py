"""The request that is served, for its log lines and for the client's trace that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

TRACEPARENT = "traceparent"
"""The HTTP header and gRPC metadata key of W3C Trace Context."""
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceParent:
    """The client's span that a request belongs to; ``is_sampled`` says that the client records it."""

    trace_id: str
    span_id: str
    is_sampled: bool


_parent: ContextVar[TraceParent | None] = ContextVar("nnhal_trace_parent", default=None)
# What structlog takes into every line, by its prefix (structlog.contextvars.STRUCTLOG_KEY_PREFIX), without what its own
# functions for that cost each request.
PREFIX = "structlog_"
_model: ContextVar[str] = ContextVar(f"{PREFIX}model")
_request_id: ContextVar[str] = ContextVar(f"{PREFIX}request_id")
_trace_id: ContextVar[str] = ContextVar(f"{PREFIX}trace_id")


def parse_traceparent(text: str) -> TraceParent | None:
    """Parse a header (W3C Trace Context, level 1, section 3.2); None if it is not valid, and is to be ignored."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or (text.startswith("00") and found.group(4)):
        return None
    return TraceParent(found.group(1), found.group(2), bool(int(found.group(3), 16) & _SAMPLED))


def current_parent() -> TraceParent | None:
    """Return the client's span of the request that is served in this context."""
    return _parent.get()


current_trace_id: Callable[[], str] = partial(_trace_id.get, "")
"""Returns the client's trace of that request; empty if there is none. Each request asks for it."""


class RequestScope:
    """Until it is left, every log line names the request, once its name is known: in this task or thread, and in the
    threads that work for it. Use it as a context, or call ``leave``.

    ``traceparent`` is the header that the client sent, empty if it sent none.
    """

    __slots__ = ("_undo",)

    def __init__(self, traceparent: str = "") -> None:
        self._undo: list[tuple[ContextVar[Any], Token[Any]]] = []
        parent = parse_traceparent(traceparent) if traceparent else None
        if parent is not None:
            self._set(_parent, parent)
            self._set(_trace_id, parent.trace_id)

    def name(self, model: str, request_id: str) -> None:
        """Name the request; may be called again when more is known."""
        self._undo.append((_model, _model.set(model)))
        if request_id:
            self._set(_request_id, request_id)

    def leave(self) -> None:
        """End it, in the task or thread that began it."""
        while self._undo:
            variable, token = self._undo.pop()
            variable.reset(token)

    def __enter__(self) -> RequestScope:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def _set(self, variable: ContextVar[T], value: T) -> None:
        self._undo.append((variable, variable.set(value)))
