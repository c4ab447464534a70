"""Recordings: beginning one, its runs, and its timeline as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Form, Path, Request
from starlette.responses import RedirectResponse, Response

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.whole_numbers import whole_number
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.runs.run import run_values
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.operating.resources.runs import MOST_RECORDED
from nnhal_pages.operating.resources.runs import record as start_recording
from nnhal_pages.operating.snapshot import Detail
from nnhal_pages.operating.table import Done, OperatedSystem

_Number = Annotated[int, Path(ge=1, lt=2**63)]
router = APIRouter()


@router.post("/recordings")
def record(
    request: Request, visitor: OperatorForm, count: Annotated[str, Form()] = "", model: Annotated[str, Form()] = ""
) -> Response:
    """Record the next runs of a model, or of all."""
    begun: list[int] = []

    def begin(at: OperatedSystem) -> Done:
        wanted = whole_number(count, MOST_RECORDED)
        if not wanted:
            raise ValueError(f"{count[:20]!r} runs are to be recorded, expected 1 to {MOST_RECORDED}")
        recorded = start_recording(at, model or "all", wanted)
        begun.append(recorded.values["recording"])
        return recorded

    answer = done(request, visitor, begin, "/runs")
    return RedirectResponse(f"/recordings/{begun[0]}", answer.status_code) if begun else answer


@router.get("/recordings/{number}")
def recording(request: Request, number: _Number) -> Response:
    """Show what a recording has."""
    collector_of(request).look(Detail.RUNS)
    kept = _kept(request, number)
    rows = [(f"/recordings/{number}/{index}", run) for index, run in enumerate(kept.runs, 1)]
    values = {"room": "/runs", "number": number, "recording": kept, "runs": rows}
    return show_page(request, "runs/recording.html", values, f"Recording {number}")


@router.get("/recordings/{number}/trace.json")
def trace(request: Request, number: _Number) -> Response:
    """Answer with the timeline of the runs as a file."""
    content = orjson.dumps(timeline_trace(_kept(request, number).runs).as_dict())
    name = f"nnhal-recording-{number}.json"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(content, media_type="application/json", headers=headers)


@router.get("/recordings/{number}/{index}")
def recorded_run(request: Request, number: _Number, index: int) -> Response:
    """Show a run of a recording, by its place in it."""
    collector = collector_of(request)
    snapshot = collector.look(Detail.RUNS)
    runs = _kept(request, number).runs
    if not 1 <= index <= len(runs):
        raise LookupError(f"recording {number} has no run {index}: it has {len(runs)}")
    run = runs[index - 1]
    values = run_values(run, snapshot, collector.contacts) | {"room": "/runs", "problem": "", "recording": number}
    title = f"Run {index} of recording {number}: {run.model}"
    return show_page(request, "runs/run.html", values, title)


def _kept(request: Request, number: int) -> wire.GetRecordingResponse:
    """Ask for a recording. Raises LookupError if there is none of the number, and NnhalError if nobody answers."""
    try:
        answer: wire.GetRecordingResponse = collector_of(request).contacts.framework().recording(number)
    except HalError as error:
        if error.status is ErrorStatus.INVALID_ARGUMENT:
            raise LookupError(error.message) from error
        raise
    return answer


def _progress(moment: Moment) -> Mapping[str, Any]:
    number, shown = int(moment.parameters["number"]), int(moment.parameters["shown"])
    state = next((each for each in moment.snapshot.recordings if each.number == number), None)
    return {"state": state, "number": number, "shown": shown}


FRAGMENTS = (
    Fragment("recordings.list", "runs/recordings.html", shows=Detail.RUNS),
    Fragment("recordings.progress", "runs/progress.html", _progress, shows=Detail.RUNS),
)
