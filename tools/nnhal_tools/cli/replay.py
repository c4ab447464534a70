"""``nnhal replay``: a recording, sent again to another device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.cli.operating import JsonOption, print_json, say
from nnhal_tools.replay import ReplayReport, ReplayRequest, replay_recording

_SHOWN = 20
"""Differences that are printed; --json has them all."""


def replay(
    recording: Annotated[Path, typer.Argument(help="A recording that 'nnhal record' has made.")],
    device: Annotated[
        str,
        typer.Option(
            help="A driver, which gets a process of its own, or a running device's DIR.", autocompletion=complete_driver
        ),
    ],
    ref: Annotated[
        str,
        typer.Option(
            help="What tells from which operation on values differ: a driver or a DIR; '' for nothing.",
            autocompletion=complete_driver,
        ),
    ] = "cpu_ref",
    as_json: JsonOption = False,
) -> None:
    """Send every call of a recording to another device, and say what differs: in which call, from which layer on.

    Values are compared as conformance tests compare them. A session's calls keep their order; a call waits for all
    that had ended before it in the recording, those of other sessions too.

    Exit status 1 if anything differs. Models that the device declines are named, and their calls left out.
    """
    console = Console(stderr=True)
    with console.status(f"replaying {recording.name} on {device}"):
        report = replay_recording(ReplayRequest(recording, device, ref))
    if as_json:
        print_json(report.as_dict())
    else:
        for line in _lines(report):
            say(line, as_json=False)
    if report.differences:
        raise typer.Exit(1)


def _lines(report: ReplayReport) -> list[str]:
    shown, told = [], set()
    for difference in report.differences[:_SHOWN]:
        model = f"model {difference.model}: " if difference.model else ""
        shown.append(f"{difference.call}: {model}{difference.what}")
        if difference.model in report.origins and difference.model not in told:
            told.add(difference.model)
            origin = report.origins[difference.model]
            shown.append(f"  {origin}" if origin.startswith("no operation") else f"  from {origin}")
    left = len(report.differences) - _SHOWN
    return [
        *[f"note: {note}" for note in report.notes],
        *[f"model {model} is declined: {reasons or 'no reason given'}" for model, reasons in report.declined.items()],
        *shown,
        *([f"… and {left} more differences"] if left > 0 else []),
        *[f"left out: {count} {reason}" for reason, count in report.left_out.items()],
        f"{report.calls} calls, {report.compared_outputs} values compared, {len(report.differences)} differences, "
        f"{len(report.declined)} models declined",
    ]
