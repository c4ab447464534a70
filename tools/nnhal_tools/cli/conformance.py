"""``nnhal conformance``: vectors against a device process."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from nnhal_pages.explanation.marks import counted
from nnhal_pages.terminal import output_console, show_table
from nnhal_tools.conformance.memory import MemoryChoice
from nnhal_tools.conformance.runner import ExecutionMode, TestResult, Verdict
from nnhal_tools.conformance.surviving import SurvivingRunner
from nnhal_tools.conformance.vectors import Vector, read_vectors
from nnhal_tools.given_model import require_writable
from nnhal_tools.up import RenewableDevice

_CLIENT = "nnhal-conformance"
_SHOWN = 20
"""Failures that are printed; --json has them all."""


def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Files of vectors (.jsonl, .jsonl.gz), or folders of them.")],
    device: Annotated[str, typer.Option(help="A driver, which gets a process of its own, or a running device's DIR.")],
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
        bool, typer.Option("--paint-outputs", help="Run each test twice, and fail those that leave output unwritten.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every result to FILE.")] = None,
) -> None:
    """Run conformance vectors against a device process, over its socket and link.

    A test passes if every output is within tolerance; a test that must fail passes if the device refuses it. 'Declined'
    means that the device does not support an operation. A device that dies of a test has failed it; the next tests get
    a new process. Exit status 1 on any failure.

    Modes and memories may be given several times: each test is then executed in every mode over every memory.
    """
    console = Console(stderr=True)
    require_writable((json_file,))
    pattern = re.compile(filter_)
    with console.status("reading vectors"):
        vectors = [vector for path in _files(paths) for vector in read_vectors(path) if pattern.search(vector.name)]
    if not vectors:
        raise ValueError(f"no test in {', '.join(map(str, paths))} matches {filter_!r}")
    ways = tuple(product(dict.fromkeys(mode or [ExecutionMode.SYNC]), dict.fromkeys(memory or [MemoryChoice.ASHMEM])))
    results: list[TestResult] = []
    with RenewableDevice(device, _CLIENT) as opened:
        try:
            _run(SurvivingRunner(opened, ways, deadline, paint_outputs), vectors, results, console)
        finally:  # a device that cannot be started again ends the run, and not what is known by then
            if json_file:
                json_file.write_text(json.dumps([asdict(result) for result in results], indent=1))
            _show(output_console(), results)
    if any(result.verdict == Verdict.FAILED for result in results):
        raise typer.Exit(1)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
        else:
            yield path


def _run(runner: SurvivingRunner, vectors: Sequence[Vector], results: list[TestResult], console: Console) -> None:
    with Progress(console=console) as progress:
        task = progress.add_task("tests", total=len(vectors))
        for vector in vectors:
            results.extend(runner.run(vector))
            progress.advance(task)


def _show(console: Console, results: Sequence[TestResult]) -> None:
    counts: dict[tuple[str, str], Counter[Verdict]] = {}
    for result in results:
        counts.setdefault((result.operation, result.type), Counter())[result.verdict] += 1
    table = Table("operation", "type", *(verdict.value for verdict in Verdict))
    for (operation, code), verdicts in sorted(counts.items()):
        table.add_row(operation, code, *(str(verdicts[verdict] or "") for verdict in Verdict))
    show_table(table, console)
    failures = [result for result in results if result.verdict == Verdict.FAILED]
    for failure in failures[:_SHOWN]:
        way = f"{failure.mode} over {failure.memory}"
        console.print(f"{failure.name}, {way}: {failure.reason}", markup=False, soft_wrap=True)
    if len(failures) > _SHOWN:
        console.print(f"… and {len(failures) - _SHOWN} more failures")
    total = Counter(result.verdict for result in results)
    summary = ", ".join(f"{total[verdict]} {verdict.value}" for verdict in Verdict)
    console.print(f"{counted(len(results), 'test')}: {summary}")
