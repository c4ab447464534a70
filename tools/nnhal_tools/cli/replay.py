"""``nnhal replay``: a recording, sent again to another device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.cli.operating import JsonOption
from nnhal_tools.cli.report_options import HtmlFile, JunitFile, error_console, write_report
from nnhal_tools.given_model import require_writable
from nnhal_tools.replay import replay_recording


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
    junit: JunitFile = None,
    html: HtmlFile = None,
) -> None:
    """Send the calls of a recording to another device, and say what differs: in which call, from which layer on.

    Values are compared as conformance tests compare them. Calls are made one after the other, in the order in which
    they began. A device that dies of a call is started again for the next ones.

    Exit status 1 if anything differs. Models that the device declines are named, and their calls left out.

    nnhal replay session.nnrec --device cpu_acc
    """
    require_writable((junit, html))
    with error_console().status(f"replaying {recording.name} on {device}"):
        report = replay_recording(recording, device, ref)
    write_report(report, junit, html, as_json=as_json)
    if report.failures:
        raise typer.Exit(1)
