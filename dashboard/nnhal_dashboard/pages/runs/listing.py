"""The list of runs: in the framework, on devices, and those that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.events.page import EventSelection
from nnhal_dashboard.pages.runs.shown import runs_with_pages
from nnhal_dashboard.web.ranges import OwnTime
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.operating.snapshot import Detail, Snapshot

SHOWN = 100
"""Runs on a page, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """What a run must be; an empty value asks for nothing."""

    model: str = ""
    client: str = ""
    """What its client or its request's id contains, in any case."""
    errors: bool = False
    """Only those that failed or fell back."""
    everything: bool = False
    """Whether more than the newest are shown."""
    time: OwnTime | None = None
    """It ran in this time."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> RunSelection:
        """Return the selection of a query. Raises ValueError if an instant cannot be read."""
        return cls(
            parameters.get("model", ""),
            parameters.get("client", ""),
            parameters.get("errors", "") == "yes",
            parameters.get("all", "") == "yes",
            OwnTime.of(parameters),
        )

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {
            "model": self.model,
            "client": self.client,
            "errors": "yes" if self.errors else "",
            "all": "yes" if self.everything else "",
        }
        given |= self.time.parameters if self.time is not None else {}
        return {name: value for name, value in given.items() if value}

    @property
    def is_narrow(self) -> bool:
        """Whether some runs are left out on purpose."""
        return bool(self.model or self.client or self.errors or self.time)

    @property
    def whole(self) -> str:
        """The address of the same runs, all of them."""
        return f"/runs?{urlencode(self.parameters | {'all': 'yes'})}"

    def of_runs(self, snapshot: Snapshot) -> list[wire.FinishedRun]:
        """Return the runs that have ended and are as asked, the newest first."""
        return [run for run in reversed(snapshot.finished) if self._takes(run, snapshot)]

    def _takes(self, run: wire.FinishedRun, snapshot: Snapshot) -> bool:
        if self.time is not None:
            arrived, ended = snapshot.epoch_ns(run.arrived_ns), snapshot.epoch_ns(run.ended_ns)
            if not self.time.has(arrived / 1e9, ended / 1e9):
                return False
        if self.model and run.model != self.model:
            return False
        if self.errors and not (run.error or run.fell_back):
            return False
        wanted = self.client.lower()
        return not wanted or wanted in run.client.lower() or wanted in run.request_id.lower()


router = APIRouter()


@router.get("/runs")
def runs(request: Request) -> Response:
    """Show what runs and waits, and the runs that have ended and that the query selects."""
    try:
        selection = RunSelection.of(request.query_params)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
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
    selection = RunSelection.of(moment.parameters)
    snapshot = moment.snapshot
    chosen = selection.of_runs(snapshot)
    most = len(chosen) if selection.everything else SHOWN
    return {
        "runs": list(runs_with_pages(chosen[:most])),
        "left_out": len(chosen) - most,
        "selection": selection,
    }


def _moment(moment: Moment) -> Mapping[str, Any]:
    selection = EventSelection(time=OwnTime.of(moment.parameters))
    return {"events": selection.of_events(moment.snapshot)[:SHOWN]}


FRAGMENTS = (
    Fragment("runs.live", "runs/live.html", lambda _: {"most": SHOWN}, Detail.RUNS),
    Fragment("runs.devices", "runs/on_devices.html", _on_devices, Detail.PROCESSES),
    Fragment("runs.finished", "runs/finished.html", _finished, shows=Detail.RUNS),
    Fragment("runs.moment", "runs/moment.html", _moment, shows=Detail.RUNS),
)
