"""The list of runs: in the framework, on devices, and those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.events.page import events_of
from nnhal_dashboard.web.ranges import OwnTime
from nnhal_dashboard.web.request_state import collector_of, selection_of, show_page
from nnhal_dashboard.web.selection import QuerySelection
from nnhal_pages.operating.snapshot import Detail, Snapshot

SHOWN = 100
"""Runs on a page, unless all are asked for."""


def selected(parameters: Mapping[str, str]) -> QuerySelection:
    """Return what runs a query selects. Raises ValueError.

    ``client`` is a part of the client or of the request's id, ``errors`` means those that failed or fell back, and
    ``all`` that more than the newest are shown.
    """
    names, yes = ("model", "client", "errors", "all"), ("yes",)
    return QuerySelection.of(parameters, names, {"errors": yes, "all": yes}, has_time=True)


def runs_of(selection: QuerySelection, snapshot: Snapshot) -> list[wire.FinishedRun]:
    """Return the runs that have ended and are as asked, the newest first."""
    return [run for run in reversed(snapshot.finished) if _takes(selection, run, snapshot)]


def _takes(selection: QuerySelection, run: wire.FinishedRun, snapshot: Snapshot) -> bool:
    if selection.time is not None:
        arrived, ended = snapshot.epoch_ns(run.arrived_ns), snapshot.epoch_ns(run.ended_ns)
        if not selection.time.has(arrived / 1e9, ended / 1e9):
            return False
    if selection["errors"] and not (run.error or run.fell_back):
        return False
    return selection.is_any_or("model", run.model) and selection.is_within("client", run.client, run.request_id)


router = APIRouter()


@router.get("/runs")
def runs(request: Request) -> Response:
    """Show what runs and waits, and the runs that have ended and that the query selects."""
    selection = selection_of(request, selected)
    snapshot = collector_of(request).look(Detail.RUNS | Detail.PROCESSES)
    values = {"selection": selection, "models": model_names(snapshot)}
    return show_page(request, "runs/runs.html", values, "Runs")


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
    chosen = runs_of(selection, moment.snapshot)
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
