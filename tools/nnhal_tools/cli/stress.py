"""``nnhal stress``: whether a driver keeps the contract under concurrent and faulty use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from nnhal_tools.stress import StressReport, run_stress
from nnhal_tools.stress.report import CLOSED, CUT_OFF
from nnhal_tools.terminal import output_console, show_table
from nnhal_tools.up import opened_device

_NAME = "nnhal-stress"
_COLUMNS = {
    "ok": ("NONE",),
    "IA": ("INVALID_ARGUMENT",),
    "GF": ("GENERAL_FAILURE",),
    "MD": ("MISSED_DEADLINE_TRANSIENT", "MISSED_DEADLINE_PERSISTENT"),
    "RE": ("RESOURCE_EXHAUSTED_TRANSIENT", "RESOURCE_EXHAUSTED_PERSISTENT"),
    "cut": (CUT_OFF, CLOSED),
    "bad": ("VIOLATION",),
}
_CAPTION = (
    "IA INVALID_ARGUMENT, GF GENERAL_FAILURE, MD MISSED_DEADLINE, RE RESOURCE_EXHAUSTED, "
    "cut: the session ended meanwhile, bad: violations"
)
_SHOWN = 20
"""Violations that are printed; --json has them all."""


def stress(
    device: Annotated[
        str, typer.Argument(help="A driver, which gets a process of its own, or a running device's DIR.")
    ],
    seconds: Annotated[float, typer.Option(help="For how long.", min=1)] = 60,
    sessions: Annotated[
        int, typer.Option(help="Sessions at a time, each a process with two or three threads.", min=1)
    ] = 4,
    seed: Annotated[int, typer.Option(help="The same seed makes the same choices.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole report to FILE.")] = None,
) -> None:
    """Call every method of the HAL at random, with valid and invalid arguments, from sessions that may be killed.

    Each status is compared with those that the contract allows, each output with the right one. Afterwards the device
    must hold nothing of the sessions. No other client may use the device meanwhile. Exit status 1 on any violation or
    leftover, or if nothing was done.
    """
    with opened_device(device, _NAME) as remote, _progress(seconds) as show:
        report = run_stress(remote, device, seconds, sessions, seed, show)
    if json_file:
        json_file.write_text(json.dumps(report.as_dict(), indent=1))
    _show(output_console(), report)
    if not report.passed:
        raise typer.Exit(1)


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[StressReport, float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("stress", total=seconds)

        def show(report: StressReport, elapsed: float) -> None:
            text = (
                f"{report.actions} actions, {report.endings.total()} sessions over, {len(report.findings)} violations"
            )
            progress.update(task, completed=elapsed, description=text)

        yield show


def _show(console: Console, report: StressReport) -> None:
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
    for finding in report.findings[:_SHOWN]:
        console.print(f"violation: {finding}", markup=False, soft_wrap=True)
    if len(report.findings) > _SHOWN:
        console.print(f"… and {len(report.findings) - _SHOWN} more violations")
    for leftover in report.leftovers:
        console.print(f"left: {leftover}", markup=False, soft_wrap=True)
    if report.did_nothing and not report.findings:
        console.print(f"nothing was done: no action ended within {report.seconds:.0f} s; give it more --seconds")
    console.print(f"{len(report.findings)} violations, {len(report.leftovers)} leftovers")
