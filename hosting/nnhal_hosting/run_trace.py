"""A run's steps in a trace, with arrows for the values that passed between them.

All instants are of CLOCK_BOOTTIME. A device's rows show when it really worked; the details have the time that it
reports, which is modelled if it has a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from nnhal.codec.reports import ledger_entry_from_wire, step_report_from_wire
from nnhal.reports import CLIENT_STEP, LedgerEntry, StepReport
from nnhal.types import Copy
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.trace import Row, Trace

Moment = tuple[Row, int]
"""A row, and an instant in it, in nanoseconds."""
_Ends = tuple[Moment, Moment]
"""The moment at which arrows to something end, and that at which arrows from it begin."""
_TIMES = ("copied_bytes", "time_on_device_ns", "time_in_driver_ns")
_PASSED = (
    "strategy",
    "bytes",
    "copied_bytes",
    "wire_up_bytes",
    "wire_down_bytes",
    "source_step",
    "destination_step",
    "reason",
)


def add_steps(
    trace: Trace,
    steps: Sequence[StepReport],
    ledger: Sequence[LedgerEntry],
    row_of: Callable[[StepReport], Row],
    called: Moment,
    answered: Moment,
    details_of: Callable[[StepReport], Mapping[str, object]] = lambda _: {},
) -> None:
    """Add a run's measured steps and the entries of its ledger.

    Arrows from the client begin at ``called``, those to it end at ``answered``. ``details_of`` adds details to a step.
    """
    ends: dict[int, _Ends] = {CLIENT_STEP: (answered, called)}
    for step in steps:
        if step.started_ns >= 0:
            row = row_of(step)
            _add_step(trace, row, step, details_of(step))
            ends.setdefault(step.step, ((row, step.started_ns), (row, max(step.started_ns, step.ended_ns - 1))))
    for entry in ledger:
        _add_entry(trace, entry, ends)


def _add_step(trace: Trace, row: Row, step: StepReport, more: Mapping[str, object]) -> None:
    details = {"step": step.step, "device": step.device, **{name: getattr(step, name) for name in _TIMES}, **more}
    trace.span(row, f"step {step.step}", step.started_ns, step.ended_ns, details)
    for copy in step.copies:
        details = {"step": step.step, "bytes": copy.bytes}
        trace.span(row, _copy_name(copy), copy.started_ns, copy.ended_ns, details)


def _copy_name(copy: Copy) -> str:
    if copy.injected:
        return f"injected fault {copy.injected}"
    if not copy.is_wire:
        return "copy out" if copy.is_output else "copy in"
    return f"{'down' if copy.is_output else 'up'} {_amount(copy.bytes)}"


def _amount(count: float) -> str:
    """Return bytes in the largest decimal unit in which they are 1 or more."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _add_entry(trace: Trace, entry: LedgerEntry, ends: Mapping[int, _Ends]) -> None:
    """Add an arrow for a use of a value, or a mark for an unplanned copy or an injected fault."""
    source, destination = ends.get(entry.source_step), ends.get(entry.destination_step)
    if source is None or destination is None:
        return
    known = asdict(entry)
    details = {name: known[name] for name in _PASSED}
    if entry.value:
        trace.flow(entry.value, source[1], destination[0], details)
    else:
        trace.instant(*source[1], "unplanned copy" if entry.copied_bytes else "injected fault", details)


_FRAMEWORK = "framework"


def timeline_trace(runs: Sequence[wire.FinishedRun]) -> Trace:
    """Return the trace. Runs that overlapped are in rows of their own; a run that was not recorded has no steps."""
    trace = Trace()
    ends: list[int] = []
    """When the last run of each row ended."""
    for run in sorted(runs, key=lambda run: run.arrived_ns):
        lane = next((number for number, end in enumerate(ends) if end <= run.arrived_ns), len(ends))
        ends[lane:] = [run.ended_ns, *ends[lane + 1 :]]
        _add(trace, run, f"runs {lane + 1}")
    return trace


def _add(trace: Trace, run: wire.FinishedRun, lane: str) -> None:
    row = trace.row(_FRAMEWORK, lane)
    details = {
        "number": run.number,
        "version": run.version,
        "client": run.client,
        "request_id": run.request_id,
        "batch_size": run.batch_size,
        "copied_bytes": run.copied_bytes,
        "fell_back": run.fell_back,
        "error": run.error,
    }
    trace.span(row, run.model, run.arrived_ns, run.ended_ns, details)
    if run.queue_ns:
        trace.span(row, "queue", run.arrived_ns, min(run.ended_ns, run.arrived_ns + run.queue_ns))
    add_steps(
        trace,
        [step_report_from_wire(step) for step in run.report.steps],
        [ledger_entry_from_wire(entry) for entry in run.report.ledger],
        lambda step: trace.row(step.device, lane),
        (row, run.arrived_ns),
        (row, max(run.arrived_ns, run.ended_ns - 1)),
    )
