"""Log lines as a page, as a live part, and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from starlette.responses import PlainTextResponse, Response

from nnhal.v1 import admin_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of, selection_of, show_page
from nnhal_dashboard.web.selection import QuerySelection
from nnhal_hosting.logs import LEVELS
from nnhal_pages.operating.resources.processes import log_level
from nnhal_pages.operating.snapshot import Detail

SHOWN = 200
"""Lines on a page, the newest."""
KEPT = 5000
"""Lines of a download."""


def selected(parameters: Mapping[str, str]) -> QuerySelection:
    """Return what lines a query selects; ``level`` is the least important one. Raises ValueError."""
    return QuerySelection.of(parameters, ("process", "level", "text", "request"), {"level": LEVELS})


def lines_of(selection: QuerySelection, lines: Sequence[admin_pb2.LogLine], most: int) -> list[admin_pb2.LogLine]:
    """Return the last lines that are as asked, the oldest first."""
    return list(islice((line for line in reversed(lines) if _takes(selection, line)), most))[::-1]


def _takes(selection: QuerySelection, line: admin_pb2.LogLine) -> bool:
    if selection["level"] and line.level and LEVELS.index(line.level) < LEVELS.index(selection["level"]):
        return False
    is_asked = selection.is_any_or("process", line.process) and selection.is_any_or("request", line.request_id)
    return is_asked and selection.is_within("text", line.text)


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
    collector, selection = collector_of(request), selection_of(request, selected)
    snapshot = collector.look(Detail.PROCESSES)
    collector.logbook.read()
    values = {
        "selection": selection,
        "names": [process.name for process in snapshot.processes],
        "levels": LEVELS,
        "query": urlencode(selection.parameters),
        "shown": SHOWN,
    }
    return show_page(request, "logs/logs.html", values, "Logs")


@router.get("/logs.txt")
def log_file(request: Request) -> Response:
    """Answer with the lines as a file."""
    lines = lines_of(selection_of(request, selected), collector_of(request).logbook.read(), KEPT)
    headers = {"content-disposition": "attachment; filename=nnhal-logs.txt"}
    return PlainTextResponse("".join(f"{_written(line)}\n" for line in lines), headers=headers)


@router.post("/logs/level")
def set_level(
    request: Request, visitor: OperatorForm, process: Annotated[str, Form()], level: Annotated[str, Form()]
) -> Response:
    """Change from which level on a process logs."""
    change = partial(log_level, name=process, level=level)
    return done(request, visitor, change, "/logs?" + urlencode({"process": process}))


def _lines(moment: Moment) -> Mapping[str, Any]:
    lines = lines_of(selected(moment.parameters), moment.collector.logbook.lines(), SHOWN)
    return {"lines": [(line, visible(line.text)) for line in lines], "is_filtered": bool(moment.parameters)}


def _levels(moment: Moment) -> Mapping[str, Any]:
    processes = [process for process in moment.snapshot.processes if process.process is not None]
    return {"levels": [(each.name, each.process.log_level) for each in processes if each.process is not None]}


def _written(line: admin_pb2.LogLine) -> str:
    at = datetime.fromtimestamp(line.at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return f"{at} {line.process} {line.level or '-'} {visible(line.text)}"


FRAGMENTS = (
    Fragment("logs.lines", "logs/lines.html", _lines),
    Fragment("logs.levels", "logs/levels.html", _levels, Detail.PROCESSES),
)
