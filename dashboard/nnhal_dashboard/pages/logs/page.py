"""Log lines as a page, as a live part, and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, HTTPException, Request
from starlette.responses import PlainTextResponse, Response

from nnhal.v1 import admin_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_hosting.logs import LEVELS
from nnhal_pages.operating.snapshot import Detail

SHOWN = 200
"""Lines on a page, the newest."""
KEPT = 5000
"""Lines of a download."""


@dataclass(frozen=True, slots=True)
class LineSelection:
    """What a line must be; an empty value asks for nothing."""

    process: str = ""
    level: str = ""
    """The least important level."""
    text: str = ""
    """What it contains, in any case."""
    request: str = ""
    """The id of the request that it is about."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> LineSelection:
        """Return the selection of a query. Raises ValueError if the level is unknown."""
        chosen = cls(*(parameters.get(name, "") for name in ("process", "level", "text", "request")))
        if chosen.level and chosen.level not in LEVELS:
            raise ValueError(f"level is {chosen.level!r}, expected one of {', '.join(LEVELS)}")
        return chosen

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {"process": self.process, "level": self.level, "text": self.text, "request": self.request}
        return {name: value for name, value in given.items() if value}

    def of_lines(self, lines: Sequence[admin_pb2.LogLine], most: int) -> list[admin_pb2.LogLine]:
        """Return the last lines that are as asked, the oldest first."""
        found: list[admin_pb2.LogLine] = []
        for line in reversed(lines):
            if self._takes(line):
                found.append(line)
                if len(found) == most:
                    break
        return found[::-1]

    def _takes(self, line: admin_pb2.LogLine) -> bool:
        if self.process and line.process != self.process:
            return False
        if self.level and line.level and LEVELS.index(line.level) < LEVELS.index(self.level):
            return False
        if self.request and line.request_id != self.request:
            return False
        return not self.text or self.text.lower() in line.text.lower()


def visible(text: str) -> str:
    """A line with its control characters made visible: a terminal's escape sequences do nothing here."""
    return "".join(character if character.isprintable() else _shown(character) for character in text)


def _shown(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"\\u{code:04x}"


router = APIRouter()


@router.get("/logs")
def logs(request: Request) -> Response:
    """Show the last lines, as the query selects them."""
    collector = collector_of(request)
    snapshot = collector.look(Detail.PROCESSES)
    collector.logbook.read()
    values = {
        "selection": _selection(request),
        "names": [process.name for process in snapshot.processes],
        "levels": LEVELS,
        "query": urlencode(_selection(request).parameters),
        "shown": SHOWN,
    }
    return show_page(request, "logs/logs.html", values, "Logs")


@router.get("/logs.txt")
def log_file(request: Request) -> Response:
    """Answer with the lines as a file."""
    lines = _selection(request).of_lines(collector_of(request).logbook.read(), KEPT)
    headers = {"content-disposition": "attachment; filename=nnhal-logs.txt"}
    return PlainTextResponse("".join(f"{_written(line)}\n" for line in lines), headers=headers)


@router.post("/logs/level")
def set_level(
    request: Request, visitor: OperatorForm, process: Annotated[str, Form()], level: Annotated[str, Form()]
) -> Response:
    """Change from which level on a process logs."""

    def change() -> None:
        collector_of(request).contacts.process(process).set_log_level(level)

    return done(
        request, visitor, change, f"{process} logs from level {level} on.", "/logs?" + urlencode({"process": process})
    )


def _lines(moment: Moment) -> Mapping[str, Any]:
    lines = LineSelection.of(moment.parameters).of_lines(moment.collector.logbook.lines(), SHOWN)
    return {"lines": [(line, visible(line.text)) for line in lines], "is_filtered": bool(moment.parameters)}


def _levels(moment: Moment) -> Mapping[str, Any]:
    processes = [process for process in moment.snapshot.processes if process.process is not None]
    return {"levels": [(each.name, each.process.log_level) for each in processes if each.process is not None]}


def _selection(request: Request) -> LineSelection:
    try:
        return LineSelection.of(request.query_params)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def _written(line: admin_pb2.LogLine) -> str:
    at = datetime.fromtimestamp(line.at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return f"{at} {line.process} {line.level or '-'} {visible(line.text)}"


PAGE = Page(
    router,
    (
        Fragment("logs.lines", "logs/lines.html", _lines),
        Fragment("logs.levels", "logs/levels.html", _levels, Detail.PROCESSES),
    ),
)
