"""Time of a run, as pictures and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nnhal.codec.reports import ledger_entry_to_wire, step_report_to_wire
from nnhal.reports import copied_by
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_client import RunReport
from nnhal_dashboard.pages.trying.results import shown_output
from nnhal_dashboard.pages.trying.running import TrialRun, took_ns
from nnhal_pages.charts.run import run_chart
from nnhal_pages.charts.split import split_chart


def shown_trial(run: TrialRun, model: str, labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what a page shows of the runs of a trial, beside their report."""
    report = run.report
    split = split_chart("The run", _parts(report), "split")
    timeline = run_chart(_finished(report, model), "run", 720)
    return {
        "report": report,
        "took_ns": took_ns(report),
        "durations_ns": run.durations_ns,
        "devices": list(dict.fromkeys(step.device for step in report.steps)),
        "copied": copied_by(report.ledger),
        "split": Markup(split.embedded()),
        "timeline": Markup(timeline.embedded()),
        "outputs": [shown_output(tensor, value, labels.get(tensor.name, ())) for tensor, value in run.outputs],
    }


def _parts(report: RunReport) -> dict[str, float]:
    """The parts of a run's time: those of steps that overlap count once."""
    framework = report.duration_ns
    copies = [copy for step in report.steps for copy in step.copies if not copy.injected]
    copying = _covered((copy.started_ns, copy.ended_ns) for copy in copies)
    sending = _covered((copy.started_ns, copy.ended_ns) for copy in copies if copy.is_wire)
    at_work = _covered((step.started_ns, step.ended_ns) for step in report.steps)
    return {
        "client and its channel": max(took_ns(report) - framework, 0),
        "framework": max(framework - at_work, 0),
        "compute": max(at_work - copying, 0),
        **({"wire": min(sending, at_work)} if sending else {}),
        "copy": max(min(copying, at_work) - sending, 0),
    }


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how long at least one of some spans lasts."""
    return sum(end - begin for begin, end in _merged(spans))


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    last: tuple[int, int] | None = None
    for begin, end in sorted(span for span in spans if span[0] >= 0):
        if last is not None and begin <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (begin, end)
    if last is not None:
        yield last


def _finished(report: RunReport, model: str) -> framework_admin_pb2.FinishedRun:
    """The run in the form that charts take."""
    return framework_admin_pb2.FinishedRun(
        model=model,
        client="this dashboard",
        arrived_ns=report.called_ns,
        ended_ns=report.answered_ns,
        infer_ns=report.duration_ns,
        report=framework_pb2.RunReport(
            duration_ns=report.duration_ns,
            started_ns=report.started_ns,
            steps=[step_report_to_wire(step) for step in report.steps],
            ledger=[ledger_entry_to_wire(entry) for entry in report.ledger],
        ),
    )
