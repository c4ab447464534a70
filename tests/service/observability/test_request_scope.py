"""The client's trace context, and the request's names in log lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog
from structlog.contextvars import merge_contextvars

from nnhal_service.observability import RequestScope
from nnhal_service.observability.request_scope import current_parent, parse_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_a_traceparent_is_read(text: str, sampled: bool) -> None:
    parent = parse_traceparent(text)
    assert parent is not None
    assert (parent.trace_id, parent.span_id, parent.is_sampled) == (TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-1",
    ],
)
def test_one_that_is_not_valid_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None
    with RequestScope(text):
        assert current_parent() is None


@pytest.fixture
def log() -> Iterator[tuple[structlog.typing.FilteringBoundLogger, io.StringIO]]:
    output = io.StringIO()
    processors: list[structlog.typing.Processor] = [merge_contextvars, structlog.processors.JSONRenderer()]
    yield structlog.wrap_logger(structlog.PrintLogger(output), processors), output


def test_lines_of_a_request_name_it_and_others_do_not(
    log: tuple[structlog.typing.FilteringBoundLogger, io.StringIO],
) -> None:
    logger, output = log
    logger.info("before")
    with RequestScope(f"00-{TRACE}-{SPAN}-01") as scope:
        assert current_parent() is not None
        logger.info("read")
        scope.name("m", "")
        logger.info("found")
        scope.name("m", "7")
        logger.info("ran")
    assert current_parent() is None
    logger.info("after")
    assert [json.loads(line) for line in output.getvalue().splitlines()] == [
        {"event": "before"},
        {"event": "read", "trace_id": TRACE},
        {"event": "found", "trace_id": TRACE, "model": "m"},
        {"event": "ran", "trace_id": TRACE, "model": "m", "request_id": "7"},
        {"event": "after"},
    ]
