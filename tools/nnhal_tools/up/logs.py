"""The lines that processes have written to standard error: the last ones are kept, and their levels are read."""

from __future__ import annotations

import ast
import json
import re
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nnhal.v1 import admin_pb2
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_hosting.logs import LEVELS

_FOR_PEOPLE = re.compile(rf"(\S+) \[({'|'.join(LEVELS)}) *\] (.*)")
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_PROCESS = re.compile(rf"(?<!\s)\s+process=(?:{_QUOTED}|\S+)")
_REQUEST = re.compile(rf"\srequest_id=({_QUOTED}|\S+)")
_NAMED = {"event", "level", "process", "request_id", "timestamp"}
"""What a line of JSON has besides its values."""


@dataclass(frozen=True, slots=True)
class ParsedLine:
    at_ns: int | None
    """When it was written, in nanoseconds since the epoch; None if it does not say."""
    level: str
    """One of LEVELS; empty if it is no line of a log."""
    text: str
    """The rest, without instant, level and process."""
    request_id: str
    """The request that it is about; empty if it does not say."""


def parse_line(line: str) -> ParsedLine:
    """Read a line; one that is in neither form is text."""
    line = line.rstrip("\r\n")
    parsed = (_json(line) if line.startswith("{") else _for_people(line)) or ParsedLine(None, "", line, "")
    return replace(parsed, text=_encodable(parsed.text), request_id=_encodable(parsed.request_id))


def _for_people(line: str) -> ParsedLine | None:
    match = _FOR_PEOPLE.fullmatch(line)
    at_ns = _instant(match[1]) if match else None
    if match is None or at_ns is None:
        return None
    text = _PROCESS.sub("", match[3], count=1)
    requests = _REQUEST.findall(text)
    # The event is padded, so that the values of short ones are in one column.
    return ParsedLine(at_ns, match[2], re.sub(r" {2,}", " ", text, count=1).strip(), _bare(requests[-1:]))


def _json(line: str) -> ParsedLine | None:
    try:
        values = json.loads(line)
        at_ns = _instant(values["timestamp"])
        level, event = values["level"], values["event"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if at_ns is None or level not in LEVELS:
        return None
    rest = [f"{name}={_shown(value)}" for name, value in sorted(values.items()) if name not in _NAMED]
    request_id = values.get("request_id") or ""
    return ParsedLine(at_ns, level, " ".join([str(event), *rest]), str(request_id))


def _instant(text: object) -> int | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    since = at - datetime.fromtimestamp(0, UTC)
    at_ns = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    return at_ns if 0 <= at_ns < 2**63 else None


def _shown(value: object) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"\S+", value) else json.dumps(value, ensure_ascii=False)


def _encodable(text: str) -> str:
    """A text without halves of characters, which an escape sequence may make and no message can carry."""
    return text.encode(errors="replace").decode()


def _bare(found: list[str]) -> str:
    """A value without its quotes."""
    for text in found:
        if text[:1] in ("'", '"'):
            try:
                return str(ast.literal_eval(text))
            except (ValueError, SyntaxError):
                return text
        return text
    return ""


_LINES_KEPT = 5000
_LONGEST = 4096
"""Characters of a line that are kept."""
_MOST_RETURNED = 200
"""Lines that are returned to those who do not say how many."""


class LogTail:
    """Keeps the last lines of all processes, dead ones too. Safe to use from several threads."""

    def __init__(self, kept: int = _LINES_KEPT) -> None:
        self._lock = threading.Lock()
        self._lines: deque[admin_pb2.LogLine] = deque(maxlen=kept)
        self._last = 0

    def add(self, process: str, line: str) -> None:
        """Add a line of a process. What is not a line of a log is kept as text; a very long line is cut."""
        parsed = parse_line(line)
        text = parsed.text if len(parsed.text) <= _LONGEST else parsed.text[:_LONGEST] + "…"
        with self._lock:
            self._last += 1
            self._lines.append(
                admin_pb2.LogLine(
                    number=self._last,
                    at_ns=time.time_ns() if parsed.at_ns is None else parsed.at_ns,
                    process=process,
                    level=parsed.level,
                    text=text,
                    request_id=parsed.request_id[:_LONGEST],
                )
            )

    def tail(self, process: str, after: int, most: int) -> wire.TailLogsResponse:
        """Return the newest lines of a process, or of all, after the line of a number; at most 200 if ``most`` is 0."""
        with self._lock:
            lines = [line for line in self._lines if line.number > after and process in ("", line.process)]
            last = self._last
        return wire.TailLogsResponse(lines=lines[-(most or _MOST_RETURNED) :], last=last)
