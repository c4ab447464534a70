"""The list of runs: in the framework, on devices, and those that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.runs.selection import SHOWN, RunSelection
from nnhal_dashboard.pages.runs.shown import shown_runs
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_dashboard.world.snapshot import Snapshot

router = APIRouter()


@router.get("/runs")
def runs(request: Request) -> Response:
    """Show what runs and waits, and the runs that have ended and that the query selects."""
    selection = RunSelection.of(request.query_params)
    snapshot = collector_of(request).look()
    values = {"selection": selection, "models": model_names(snapshot)}
    return show_page(request, "runs/runs.html", values, "Runs")


def model_names(snapshot: Snapshot) -> list[str]:
    """Return the models that are known, those of sessions and those of runs that have ended included."""
    framework = snapshot.framework
    known = {run.model for run in snapshot.finished}
    if framework is not None:
        known |= {model.name for model in framework.models} | {model.name for model in framework.session_models}
    return sorted(known)


def _live(moment: Moment) -> Mapping[str, Any]:
    snapshot = moment.snapshot
    return {
        "host": snapshot.host,
        "executions": snapshot.live[:SHOWN],
        "left_out": len(snapshot.live) - SHOWN,
    }


def _on_devices(moment: Moment) -> Mapping[str, Any]:
    said = [(device.name, device.last_said) for device in moment.snapshot.devices]
    return {
        "busy": [(name, known.executions[:SHOWN]) for name, known in said if known is not None and known.executions],
        "idle": [name for name, known in said if known is not None and not known.executions],
        "silent": [name for name, known in said if known is None],
    }


def _finished(moment: Moment) -> Mapping[str, Any]:
    selection = RunSelection.of(moment.parameters)
    snapshot = moment.snapshot
    chosen = selection.of_runs(snapshot.finished)
    most = len(chosen) if selection.everything else SHOWN
    return {
        "runs": shown_runs(chosen[:most], snapshot),
        "left_out": len(chosen) - most,
        "count": len(snapshot.finished),
        "selection": selection,
    }


FRAGMENTS = (
    Fragment("runs.live", "runs/live.html", _live),
    Fragment("runs.devices", "runs/on_devices.html", _on_devices),
    Fragment("runs.finished", "runs/finished.html", _finished),
)
