"""``nnhal record``: what clients ask of a device, to a file; and such a file for people."""

from __future__ import annotations

import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict
from rich.console import Console

from nnhal.errors import NnhalError
from nnhal.recording import read_device_recording
from nnhal.remote.recordings import Omissions, RecordingControl
from nnhal.v1 import recording_pb2
from nnhal_pages.units import size
from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, print_json, print_rows, say
from nnhal_tools.record.recorded_device import recorded_device
from nnhal_tools.record.report import COLUMNS, headline, models, rows
from nnhal_tools.settings import ClientSettings

_SHOW = "show"
_LOOK_SECONDS = 0.2


class LeftOut(StrEnum):
    """Parts that a recording may do without."""

    CONTENTS = "contents"
    WEIGHTS = "weights"
    NAMES = "names"


def record(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…] | show FILE", help="What to record, or 'show' and a recording."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="A running device by its name or its DIR, or a driver, which COMMAND's clients meet.",
            autocompletion=complete_driver,
        ),
    ] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to record to.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Record so long; without COMMAND until Ctrl-C.", min=0)] = None,
    leave_out: Annotated[
        list[LeftOut] | None, typer.Option(help="What not to record: may be given several times.")
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(help="Bytes that the file may have; then contents are left out, and calls.", min=0)
    ] = 4 << 30,
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record every call that clients make of a device, with its arguments, answers and times; or show a recording.

    In COMMAND, {device} stands for the directory of the device, {framework} for that of a framework that uses it, and
    {directory} for that of both, which NNHAL_DIRECTORY is too. The exit status is COMMAND's; 1 if the recording failed.

    A running device must have been started with --allow-recording.

    nnhal record --device cpu_ref -o session.nnrec -- python examples/workbench/read_digits.py {framework}
    """
    given = list(words or ())
    if not device:
        _show(_shown_file(given, output), as_json)
        return
    if output is None:
        raise ValueError("--device without --output FILE, expected both")
    left_out = set(leave_out or ())
    omissions = Omissions(**{name.value: name in left_out for name in LeftOut})
    root = (directory or ClientSettings().directory).absolute()
    with recorded_device(device, root, given) as recorded, RecordingControl(recorded.endpoint) as control:
        control.start(output, omissions, max_bytes)
        status = recorded.run(given) if given else _wait(control, seconds)
        figures = _ended(control)
        _tell(output, figures, as_json)
    if figures is None or figures.failure:
        raise typer.Exit(status or 1)
    if status:
        raise typer.Exit(status)


def _wait(control: RecordingControl, seconds: float | None) -> int:
    """Wait until it has taken so long, the user interrupts, or the device has ended."""
    until = None if seconds is None else time.monotonic() + seconds
    pause = threading.Event()
    try:
        while not control.gone and (until is None or time.monotonic() < until):
            pause.wait(_LOOK_SECONDS if until is None else min(_LOOK_SECONDS, max(until - time.monotonic(), 0)))
    except KeyboardInterrupt:
        pass
    return 0


def _ended(control: RecordingControl) -> recording_pb2.RecordingFigures | None:
    """End the recording; None if the device has ended before."""
    try:
        return control.stop()
    except NnhalError:
        if control.gone:
            return None
        raise


def _tell(output: Path, figures: recording_pb2.RecordingFigures | None, as_json: bool) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if figures is None:
        console.print(
            f"{output}: the device has ended; the recording reaches as far as it could be written", markup=False
        )
        return
    if as_json:
        print_json({"file": str(output), **MessageToDict(figures, preserving_proto_field_name=True)})
        return
    missing = [
        f"{count} {what} are missing"
        for count, what in ((figures.dropped_calls, "calls"), (figures.dropped_contents, "contents"))
        if count
    ]
    told = [f"{figures.calls} calls, {figures.contents} contents, {size(figures.bytes)}", *missing]
    console.print(f"{output}: {'; '.join(told)}{'; ' if figures.failure else ''}{figures.failure}", markup=False)


def _shown_file(words: list[str], output: Path | None) -> Path:
    if len(words) != 2 or words[0] != _SHOW or output is not None:
        raise ValueError("expected --device and --output to record, or 'show' and one FILE")
    return Path(words[1])


def _show(file: Path, as_json: bool) -> None:
    with read_device_recording(file) as recording:
        if as_json:
            print_json(
                {
                    "header": MessageToDict(recording.header, preserving_proto_field_name=True),
                    "calls": [
                        {
                            **MessageToDict(call.event, preserving_proto_field_name=True),
                            "started_ns": call.started_ns,
                            "ended_ns": call.ended_ns,
                        }
                        for call in recording.calls
                    ],
                }
            )
            return
        for line in (*headline(recording), *models(recording)):
            say(line, as_json=False)
        print_rows(COLUMNS, rows(recording), "no calls")
