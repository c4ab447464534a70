"""Acts of a finished run: who did what when, and which values passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nnhal.reports import CLIENT_STEP
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_pages.units import size
from nnhal_pages.wires import sent_words

CLIENT, FRAMEWORK = "client", "framework"
_VALUES = 8
"""How many values are named of those that pass together."""


class RunAct(NamedTuple):
    """Act in a lane, in nanoseconds since the run arrived."""

    lane: str
    kind: str
    name: str
    begin: float
    end: float
    is_part: bool = False
    """True if it is a part of what is done in its lane at that time."""


class RunMoment(NamedTuple):
    """An instant in a lane."""

    lane: str
    at: float


class RunPassing(NamedTuple):
    """Values that pass from one step to another in the same way."""

    source: RunMoment
    target: RunMoment
    copied: bool
    notes: tuple[str, ...]
    """Lines."""


def run_acts(run: framework_admin_pb2.FinishedRun) -> Iterator[RunAct]:
    """Yield what was done; without the run's report its stages only. Steps of unknown instants are left out."""
    total = run.ended_ns - run.arrived_ns
    yield RunAct(CLIENT, "request", f"request of {run.client}" if run.client else "request", 0, total)
    began = run.queue_ns + run.input_ns
    ended = began + run.infer_ns
    if run.HasField("report"):
        began = run.report.started_ns - run.arrived_ns
        ended = began + run.report.duration_ns
    stages = (
        ("queue", 0, run.queue_ns),
        ("input", run.queue_ns, run.queue_ns + run.input_ns),
        ("run", began, ended),
        ("output", ended, ended + run.output_ns),
    )
    yield from (RunAct(FRAMEWORK, kind, kind, begin, end) for kind, begin, end in stages if end > begin)
    for lane, step in _laned_steps(run.report.steps):
        yield from _step_acts(lane, step, run.arrived_ns)


def run_passings(run: framework_admin_pb2.FinishedRun) -> Iterator[RunPassing]:
    """Yield what passed between the steps whose instants are known, and from and to the client."""
    total = run.ended_ns - run.arrived_ns
    ends = {CLIENT_STEP: (RunMoment(CLIENT, total), RunMoment(CLIENT, 0))}
    for lane, step in _laned_steps(run.report.steps):
        begin, end = step.started_ns - run.arrived_ns, step.ended_ns - run.arrived_ns
        ends.setdefault(step.step, (RunMoment(lane, begin), RunMoment(lane, end)))
    groups: dict[tuple[int, int, bool], list[framework_pb2.LedgerEntry]] = {}
    for entry in run.report.ledger:
        if entry.value and entry.source_step in ends and entry.destination_step in ends:
            way = entry.source_step, entry.destination_step, entry.copied_bytes > 0
            groups.setdefault(way, []).append(entry)
    for (giver, taker, copied), entries in groups.items():
        yield RunPassing(ends[giver][1], ends[taker][0], copied, _notes(entries))


def _laned_steps(steps: Iterable[framework_pb2.StepReport]) -> Iterator[tuple[str, framework_pb2.StepReport]]:
    """Yield the steps whose instants are known with their lanes: the device's, or another for what overlaps."""
    free: dict[str, int] = {}
    """From when on each lane is free."""
    for step in sorted((step for step in steps if step.started_ns >= 0), key=lambda each: each.started_ns):
        lane, number = step.device, 1
        while free.get(lane, 0) > step.started_ns:
            number += 1
            lane = f"{step.device} ({number})"
        free[lane] = step.ended_ns
        yield lane, step


def _step_acts(lane: str, step: framework_pb2.StepReport, origin: int) -> Iterator[RunAct]:
    yield RunAct(lane, "compute", f"step {step.step}", step.started_ns - origin, step.ended_ns - origin)
    for copy in step.copies:
        if copy.is_wire:
            kind, way = "wire", f"{'down' if copy.is_output else 'up'} the wire for"
        else:
            kind, way = "copy", f"copy {'out' if copy.is_output else 'in'} of"
        what = f"{way} step {step.step}, {size(copy.bytes)}"
        if copy.injected:
            what = f"injected fault {copy.injected} in step {step.step}"
        yield RunAct(lane, kind, what, copy.started_ns - origin, copy.ended_ns - origin, is_part=True)


def _notes(entries: Sequence[framework_pb2.LedgerEntry]) -> tuple[str, ...]:
    lines = []
    for entry in entries[:_VALUES]:
        way = f"{size(entry.copied_bytes)} copied" if entry.copied_bytes else "in place"
        way = sent_words(entry) or way
        lines.append(f"{entry.value}: {size(entry.bytes)}, {way} ({entry.strategy})")
    more = len(entries) - len(lines)
    return (*lines, f"and {more} more") if more else tuple(lines)
