"""``nnhal events``, ``nnhal runs`` and ``nnhal recordings``: what has happened lately."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from nnhal.errors import NnhalError
from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.copies import copied_figures
from nnhal_tools.cli.operating import (
    DirectoryOption,
    JsonOption,
    KeyOption,
    operator_at,
    print_json,
    print_rows,
    say,
)
from nnhal_tools.operate.operator_session import OperatorSession
from nnhal_tools.operate.plain import plain
from nnhal_tools.operate.text import in_bytes, request_time, since

_RUN_COLUMNS = (
    "run",
    "model",
    "client",
    "request",
    "ended",
    "took",
    "queue",
    "devices",
    "between",
    "clients",
    "staged",
    "outcome",
)


def events(
    lines: Annotated[int, typer.Option("--lines", help="Only so many, the newest.", min=1)] = 500,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what has happened: processes that died, devices lost and back, models planned again, fallbacks."""
    with operator_at(directory, admin_key) as operator:
        happened = _happened(operator)[-lines:]
    if as_json:
        print_json({"events": [plain(event) for event in happened]})
    else:
        rows = [(_clock(event.at_ns), event.subject, event.kind, event.text) for event in happened]
        print_rows(("at", "of", "what", "in a sentence"), rows, "nothing has happened")


def runs(
    model: Annotated[str, typer.Option(help="Only of this model.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed or fell back.")] = False,
    lines: Annotated[int, typer.Option("--lines", help="Only so many, the newest.", min=1)] = 1000,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs that have ended, the newest last. Those that wait or run are in 'nnhal ps --executions'."""
    with operator_at(directory, admin_key) as operator, operator.framework() as admin:
        answer = admin.runs(model=model)
    chosen = [run for run in answer.finished if not failed or run.error or run.fell_back][-lines:]
    if as_json:
        print_json({"runs": [plain(run) for run in chosen]})
    else:
        print_rows(_RUN_COLUMNS, map(_run, chosen), "no such runs are kept")


def recordings(
    number: Annotated[int | None, typer.Argument(help="Of the recording to write.", min=1)] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for Perfetto or chrome://tracing.")] = None,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the recordings of runs that the framework keeps, whoever made them, or write one's timeline to a file."""
    if (number is None) != (out is None):
        raise ValueError("expected both the number of a recording and --out FILE, or neither")
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        if number is not None and out is not None:
            recording = framework.recording(number)
            timeline_trace(recording.runs).write(out)
            told = f"{len(recording.runs)} runs of recording {number} are in {out}"
            say(told, as_json, runs=len(recording.runs), left=recording.left, file=str(out))
            return
        kept = framework.runs().recordings
    if as_json:
        print_json({"recordings": [plain(state) for state in kept]})
    else:
        rows = [(str(state.number), state.model or "all", str(state.runs), str(state.left)) for state in kept]
        print_rows(("recording", "model", "runs", "to come"), rows, "nothing has been recorded")


def _happened(operator: OperatorSession) -> list[supervisor_pb2.ProcessEvent]:
    """The events of the supervisor and of the framework, in order. Either may be away."""
    found: list[supervisor_pb2.ProcessEvent] = []
    if operator.is_supervised:
        found += operator.supervisor.events()
    with suppress(NnhalError), operator.framework() as admin:
        found += admin.framework().events
    return sorted(found, key=lambda event: event.at_ns)


def _run(run: framework_admin_pb2.FinishedRun) -> tuple[str, ...]:
    return (
        str(run.number),
        f"{run.model} {run.version}".strip(),
        run.client,
        run.request_id,
        f"{since(run.ended_ns)} ago",
        request_time(run.ended_ns - run.arrived_ns),
        request_time(run.queue_ns),
        ", ".join(run.devices),
        *copied_figures(run.copied, in_bytes),
        run.error or ("fell back" if run.fell_back else "succeeded"),
    )


def _clock(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]
