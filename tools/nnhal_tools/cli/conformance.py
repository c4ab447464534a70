"""``nnhal conformance``: vectors against a device process."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from nnhal_tools.cases.asked_device import AskedDevice
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice
from nnhal_tools.cases.report import CaseReport
from nnhal_tools.cases.runner import CaseRunner, run_all
from nnhal_tools.cases.vectors import vectors_in
from nnhal_tools.cli.report_options import HtmlFile, JunitFile, error_console, write_report
from nnhal_tools.given_model import require_writable
from nnhal_tools.up import RenewableDevice
from nnhal_tools.up.drivers import given_device

_CLIENT = "nnhal-conformance"
_MOST_JOBS, _CASES_EACH = 4, 50
"""Processes of a driver at a time, and how many tests make another one worth its start."""


def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Files of vectors (.jsonl, .jsonl.gz), or folders of them.")],
    device: Annotated[str, typer.Option(help="A driver, which gets processes of its own, or a running device's DIR.")],
    mode: Annotated[
        list[ExecutionMode] | None,
        typer.Option(help="How each test is executed: 'sync' unless given."),
    ] = None,
    memory: Annotated[
        list[MemoryChoice] | None,
        typer.Option(help="The kind of the pools: 'ashmem' unless given."),
    ] = None,
    filter_: Annotated[str, typer.Option("--filter", help="Only tests whose name matches this expression.")] = "",
    deadline: Annotated[
        float | None,
        typer.Option(help="Give each preparation and each execution N seconds: what takes longer fails.", min=0.001),
    ] = None,
    paint_outputs: Annotated[
        bool, typer.Option("--paint-outputs", help="Run each test twice, and fail a test that leaves output unwritten.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes of a driver at a time; as many as there are processors, 4 at most.", min=1),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every result to FILE.")] = None,
    junit: JunitFile = None,
    html: HtmlFile = None,
) -> None:
    """Run conformance vectors against a device process, over its socket and link.

    A test passes if every output is within tolerance; a test that must fail passes if the device refuses it. 'Declined'
    means that the device does not support an operation. A device that dies of a test has failed it; the next tests get
    a new process. Exit status 1 on any failure.

    Modes and memories may be given several times: each test is then executed in every mode over every memory.

    nnhal conformance examples/vectors.jsonl --device cpu_ref
    """
    console = error_console()
    require_writable((json_file, junit, html))
    with console.status("reading vectors"):
        vectors = vectors_in(paths, filter_)
    ways = tuple(product(dict.fromkeys(mode or [ExecutionMode.SYNC]), dict.fromkeys(memory or [MemoryChoice.ASHMEM])))
    report = CaseReport(f"{', '.join(map(str, paths))} on {device}", "test")
    is_running = given_device(device).directory is not None
    count = jobs or min(os.cpu_count() or 1, _MOST_JOBS, 1 + len(vectors) // _CASES_EACH)
    with ExitStack() as stack:
        runners = [
            CaseRunner(
                AskedDevice(device, stack.enter_context(RenewableDevice(device, _CLIENT)), deadline),
                ways,
                paint_outputs,
            )
            for _ in range(1 if is_running else count)
        ]
        progress = stack.enter_context(Progress(console=console))
        task = progress.add_task("tests", total=len(vectors))
        try:
            run_all(vectors, runners, report, lambda: progress.advance(task))
        finally:  # a device that cannot be started again ends the run, and not what is known by then
            progress.stop()
            write_report(report, junit, html, json_file)
    if report.failures:
        raise typer.Exit(1)
