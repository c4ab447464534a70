"""Tables of a stress run for a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from nnhal_pages.explanation.marks import counted
from nnhal_pages.terminal import show_table
from nnhal_tools.stress.reduction import ReducedScript
from nnhal_tools.stress.report import CLOSED, CUT_OFF, NOT_OFFERED, StressReport

_COLUMNS = {
    "ok": ("NONE",),
    "IA": ("INVALID_ARGUMENT",),
    "GF": ("GENERAL_FAILURE",),
    "MD": ("MISSED_DEADLINE_TRANSIENT", "MISSED_DEADLINE_PERSISTENT"),
    "RE": ("RESOURCE_EXHAUSTED_TRANSIENT", "RESOURCE_EXHAUSTED_PERSISTENT"),
    "cut": (CUT_OFF, CLOSED),
    "n/o": (NOT_OFFERED,),
    "bad": ("VIOLATION",),
}
_CAPTION = (
    "IA INVALID_ARGUMENT, GF GENERAL_FAILURE, MD MISSED_DEADLINE, RE RESOURCE_EXHAUSTED, "
    "cut: the session ended meanwhile, n/o: not offered, bad: violations"
)
_SHOWN = 20
"""Violations, or actions of a script, that are printed; --json has them all."""


def show_report(console: Console, report: StressReport) -> None:
    """Print the actions with their outcomes, the violations and the leftovers."""
    table = Table(
        Column("action", no_wrap=True),
        *(Column(name, justify="right") for name in _COLUMNS),
        box=SIMPLE,
        caption=_CAPTION,
    )
    for action, counter in sorted(report.outcomes.items()):
        counts = (sum(counter[outcome] for outcome in outcomes) for outcomes in _COLUMNS.values())
        table.add_row(action, *(str(count or "") for count in counts))
    show_table(table, console)
    endings = ", ".join(f"{count} {ending}" for ending, count in sorted(report.endings.items()))
    console.print(
        f"{report.actions} actions in {report.seconds:.0f} s, {report.succeeded:.0%} of them succeeded; "
        f"{report.endings.total()} sessions: {endings}; {report.resident_growth_bytes >> 20} MiB growth in RAM",
        soft_wrap=True,
    )
    if report.workers:
        why = f", since {report.serial_because}" if report.serial_because else ""
        console.print(f"{counted(report.workers, 'execution')} at a time{why}", markup=False, soft_wrap=True)
    if not report.allocates:
        console.print("no Allocate: nothing was done with device buffers")
    for finding in report.findings[:_SHOWN]:
        console.print(f"violation: {finding}", markup=False, soft_wrap=True)
    if len(report.findings) > _SHOWN:
        console.print(f"… and {len(report.findings) - _SHOWN} more violations")
    for leftover in report.leftovers:
        console.print(f"left: {leftover}", markup=False, soft_wrap=True)
    if report.did_nothing and not report.findings:
        why = f"no action ended within {report.seconds:.0f} s"
        console.print(f"nothing was done: {why}; give it more --seconds, or a script with actions", soft_wrap=True)
    console.print(f"{len(report.findings)} violations, {len(report.leftovers)} leftovers")


def show_reduced(console: Console, reduced: ReducedScript) -> None:
    """Print the least script, how it was found, and how often it shows the violation."""
    script, ended = reduced.script, "" if reduced.is_least else "; the search ended before it was the least"
    console.print(
        f"shrunk to {counted(len(script.clients), 'client')} and {counted(script.actions, 'action')}: "
        f"{reduced.scripts} scripts tried in "
        f"{reduced.runs} runs{ended}; the violation came in {reduced.shown} of {reduced.of} more runs",
        soft_wrap=True,
    )
    console.print(f"violation: {reduced.kind}", markup=False, soft_wrap=True)
    if script.actions > _SHOWN:
        return
    for client in script.clients:
        if not client.threads:
            console.print(f"client {client.client}: opens a session")
        for thread, acts in enumerate(client.threads):
            words = ((name, len(list(same))) for name, same in groupby(act.action for act in acts))
            sequence = ", then ".join(name if count == 1 else f"{name}, {count} times" for name, count in words)
            console.print(f"client {client.client}, thread {thread}: {sequence}", soft_wrap=True)
