"""The page of a run that has ended: what took how long, and what its steps did if it was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from nnhal.errors import NnhalError
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_dashboard.pages.runs.ledger import compared
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.charts.run import run_chart
from nnhal_pages.charts.split import split_chart
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.resources.runs import MOST_FOUND
from nnhal_pages.operating.snapshot import Detail, Snapshot

router = APIRouter()
FRAGMENTS = ()
_SAME_NS = 10**6
"""Instants of the same run differ by less, if they were told in two answers: clocks are read for each."""
_NEAR_NS = 10**9
"""An instant since the boot, and one since the epoch, move apart by less while the clock is set."""


@router.get("/runs/{number}")
def finished_run(request: Request, number: int, arrived: int = 0) -> Response:
    """Show a run, by its number; ``arrived`` tells it from one of the framework's life before."""
    collector = collector_of(request)
    snapshot = collector.look(Detail.RUNS)
    found = (run for run in reversed(snapshot.finished) if run.number == number and arrived in (0, run.arrived_ns))
    run = next(found, None) or (_of_day(collector.contacts, snapshot, number, arrived) if arrived else None)
    if run is None:
        raise LookupError(f"no run {number} is known: it is none of the last {len(snapshot.finished)} that have ended")
    problem = ""
    if run.recording:
        try:
            run = with_report(run, collector.contacts.framework().recording(run.recording).runs)
        except NnhalError as error:
            problem = f"Its steps were recorded, but the recording cannot be had: {error}"
    values = run_values(run, snapshot, collector.contacts) | {"problem": problem, "recording": run.recording}
    return show_page(request, "runs/run.html", values, f"Run {number} of {run.model}")


def _of_day(contacts: Contacts, snapshot: Snapshot, number: int, arrived: int) -> wire.FinishedRun | None:
    """Ask the framework for a run that it has kept for a day."""
    at_ns = round(snapshot.epoch_ns(arrived))
    near = wire.FindRunsRequest(begin_ns=at_ns - _NEAR_NS, end_ns=at_ns + _NEAR_NS, most=MOST_FOUND)
    same = [run for run in contacts.framework().find_runs(near) if run.number == number]
    return min(same, key=lambda run: abs(run.arrived_ns - arrived), default=None)


def run_values(run: wire.FinishedRun, snapshot: Snapshot, contacts: Contacts) -> dict[str, Any]:
    """Return what the page of a run shows; its plan is asked for if there is a ledger to compare it with."""
    edges: Sequence[framework_pb2.EdgeExplanation] = ()
    no_plan = ""
    if run.report.ledger:
        try:
            edges = contacts.framework().explain(_target(run, snapshot)).explanation.edges
        except NnhalError as error:
            no_plan = str(error)
    split = _split(run)
    return {
        "run": run,
        "arrived": snapshot.epoch_ns(run.arrived_ns),
        "took_ns": run.ended_ns - run.arrived_ns,
        "split": split,
        "split_chart": Markup(split_chart("Latency", split, "split").embedded()) if len(split) > 1 else "",
        "chart": Markup(run_chart(run, "run").embedded()),
        "ledger": compared(run.report.ledger, edges, has_plan=not no_plan),
        "no_plan": no_plan,
        "in_repository": bool(run.version),
    }


def with_report(run: wire.FinishedRun, recorded: Sequence[wire.FinishedRun]) -> wire.FinishedRun:
    """Return a run as a recording has it, with its report; the run itself if it is not in the recording."""
    took = run.ended_ns - run.arrived_ns
    same = [
        each
        for each in recorded
        if (each.model, each.client, each.request_id) == (run.model, run.client, run.request_id)
        and each.ended_ns - each.arrived_ns == took
        and abs(each.arrived_ns - run.arrived_ns) < _SAME_NS
    ]
    if not same:
        return run
    found = wire.FinishedRun()
    found.CopyFrom(min(same, key=lambda each: abs(each.arrived_ns - run.arrived_ns)))
    found.number, found.recording = run.number, run.recording
    return found


def _target(run: wire.FinishedRun, snapshot: Snapshot) -> wire.PlanTarget:
    """Return the model of a run: of the repository, or else of the first session that has one of its name."""
    if run.version or snapshot.framework is None:
        return wire.PlanTarget(model=run.model, version=run.version)
    sessions = (model.session for model in snapshot.framework.session_models if model.name == run.model)
    return wire.PlanTarget(model=run.model, session=next(sessions, ""))


def _split(run: wire.FinishedRun) -> Mapping[str, float]:
    """Return the parts of its time that are known, by name."""
    parts = {"queue": run.queue_ns, "input": run.input_ns, "run": run.infer_ns, "output": run.output_ns}
    return {name: took for name, took in parts.items() if took > 0}
