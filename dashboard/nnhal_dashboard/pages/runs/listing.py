"""The list of runs: in the framework, on devices, and those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.errors import NnhalError
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.events.page import events_of
from nnhal_dashboard.web.ranges import OwnTime
from nnhal_dashboard.web.request_state import collector_of, selection_of, show_page
from nnhal_dashboard.web.selection import QuerySelection
from nnhal_pages.operating.resources.runs import RunOrder, find_runs, is_troubled
from nnhal_pages.operating.snapshot import Detail, Snapshot

SHOWN = 100
"""Runs on a page, unless all are asked for."""


def selected(parameters: Mapping[str, str]) -> QuerySelection:
    """Return what runs a query selects. Raises ValueError.

    ``client`` is a part of the client or of the request's id, ``errors`` means those that failed or fell back, ``all``
    that more than the newest are shown, and ``sort`` that the slowest of a day come first.
    """
    names, yes = ("model", "client", "errors", "all", "sort"), ("yes",)
    return QuerySelection.of(parameters, names, {"errors": yes, "all": yes, "sort": ("took",)}, has_time=True)


def _takes(selection: QuerySelection, run: wire.FinishedRun) -> bool:
    if selection["errors"] and not is_troubled(run):
        return False
    return selection.is_any_or("model", run.model) and selection.is_within("client", run.client, run.request_id)


router = APIRouter()


@router.get("/runs")
def runs(request: Request) -> Response:
    """Show what runs and waits, and the runs that have ended and that the query selects."""
    selection = selection_of(request, selected)
    snapshot = collector_of(request).look(Detail.RUNS | Detail.PROCESSES)
    values = {"selection": selection, "models": model_names(snapshot)}
    if selection.time is not None or selection["sort"]:
        values |= _of_day(request, selection)
    return show_page(request, "runs/runs.html", values, "Runs")


def _of_day(request: Request, selection: QuerySelection) -> Mapping[str, Any]:
    """Ask the framework for runs that it has kept for a day: which they are does not change."""
    time = selection.time.parameters if selection.time is not None else {}
    begin, until = (time.get(name, "") for name in ("from", "until"))
    sort: RunOrder = "took" if selection["sort"] else "ended"
    try:
        found = find_runs(collector_of(request), selection["model"], begin, until, sort, bool(selection["errors"]))
    except NnhalError as error:
        return {"kept": [], "problem": str(error)}
    kept = [(f"/runs/{run.number}?arrived={run.arrived_ns}", run) for (run,) in found if _takes(selection, run)]
    return {"kept": kept if selection["sort"] else kept[::-1], "problem": ""}


def model_names(snapshot: Snapshot) -> list[str]:
    """Return the models that are known, those of sessions and those of runs that have ended included."""
    framework = snapshot.framework
    known = {run.model for run in snapshot.finished}
    if framework is not None:
        known |= {model.name for model in framework.models} | {model.name for model in framework.session_models}
    return sorted(known)


def _on_devices(moment: Moment) -> Mapping[str, Any]:
    said = [(device.name, device.last_said) for device in moment.snapshot.devices]
    return {
        "busy": [(name, known.executions[:SHOWN]) for name, known in said if known is not None and known.executions],
        "idle": [name for name, known in said if known is not None and not known.executions],
        "silent": [name for name, known in said if known is None],
    }


def _finished(moment: Moment) -> Mapping[str, Any]:
    selection = selected(moment.parameters)
    chosen = [run for run in reversed(moment.snapshot.finished) if _takes(selection, run)]
    most = len(chosen) if selection["all"] else SHOWN
    return {
        "runs": list(runs_with_pages(chosen[:most])),
        "left_out": len(chosen) - most,
        "selection": selection,
        "is_narrow": any(selection[name] for name in ("model", "client", "errors")),
        "whole": f"/runs?{urlencode(selection.parameters | {'all': 'yes'})}",
    }


def runs_with_pages(runs: Iterable[wire.FinishedRun]) -> Iterator[tuple[str, wire.FinishedRun]]:
    """Yield runs with the paths of their pages, the newest first.

    A framework that was started again counts from 1 again, so an earlier run's address has the instant of its arrival.
    """
    known = set[int]()
    for run in runs:
        yield f"/runs/{run.number}" + (f"?arrived={run.arrived_ns}" if run.number in known else ""), run
        known.add(run.number)


def _moment(moment: Moment) -> Mapping[str, Any]:
    selection = QuerySelection(time=OwnTime.of(moment.parameters))
    return {"events": events_of(selection, moment.snapshot)[:SHOWN]}


FRAGMENTS = (
    Fragment("runs.live", "runs/live.html", lambda _: {"most": SHOWN}, Detail.RUNS),
    Fragment("runs.devices", "runs/on_devices.html", _on_devices, Detail.PROCESSES),
    Fragment("runs.finished", "runs/finished.html", _finished, shows=Detail.RUNS),
    Fragment("runs.moment", "runs/moment.html", _moment, shows=Detail.RUNS),
)
