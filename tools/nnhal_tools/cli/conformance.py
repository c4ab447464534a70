"""``nnhal conformance``: vectors against a device process."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from nnhal_tools.conformance.runner import ExecutionMode, TestResult, Verdict, Way
from nnhal_tools.conformance.shrinking import REFERENCE, Reducer, reduction_words
from nnhal_tools.conformance.surviving import SurvivingRunner
from nnhal_tools.conformance.vectors import Vector, read_vectors
from nnhal_tools.conformance.written import vector_line
from nnhal_tools.given_model import require_writable
from nnhal_tools.shrink import MOST_TRIES
from nnhal_tools.up import RenewableDevice

_CLIENT = "nnhal-conformance"
_SHOWN = 20
"""Failures that are printed; --json has them all."""


def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Files of vectors (.jsonl, .jsonl.gz), or folders of them.")],
    device: Annotated[str, typer.Option(help="A driver, which gets a process of its own, or a running device's DIR.")],
    mode: Annotated[
        list[ExecutionMode] | None,
        typer.Option(help="How each test is executed: as it says itself unless given, or 'sync'."),
    ] = None,
    memory: Annotated[
        list[MemoryChoice] | None,
        typer.Option(help="The kind of the pools: as the test says unless given, or 'ashmem'."),
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
    shrink: Annotated[
        Path | None,
        typer.Option("--shrink", help="Reduce each failing test to the least that fails so, and write these to FILE."),
    ] = None,
    shrink_most: Annotated[
        int | None, typer.Option("--shrink-most", help="Reduce the first N failing tests only.", min=1)
    ] = None,
    shrink_tries: Annotated[
        int, typer.Option("--shrink-tries", help="Run at most N simpler forms of one test.", min=1)
    ] = MOST_TRIES,
) -> None:
    """Run conformance vectors against a device process, over its socket and link.

    A test passes if every output is within tolerance; a test that must fail passes if the device refuses it. 'Declined'
    means that the device does not support an operation. A device that dies of a test has failed it; the next tests get
    a new process. Exit status 1 on any failure.

    Modes and memories may be given several times: each test is then executed in every mode over every memory.
    """
    console = Console(stderr=True)
    require_writable((json_file, shrink))
    pattern = re.compile(filter_)
    with console.status("reading vectors"):
        vectors = [vector for path in _files(paths) for vector in read_vectors(path) if pattern.search(vector.name)]
    if not vectors:
        raise ValueError(f"no test in {', '.join(map(str, paths))} matches {filter_!r}")
    ways = {number: _ways(vector, mode, memory) for number, vector in enumerate(vectors)}
    results: list[TestResult] = []
    with RenewableDevice(device, _CLIENT) as opened:
        try:
            every = tuple(dict.fromkeys(way for found in ways.values() for way in found))
            _run(SurvivingRunner(opened, every, deadline, paint_outputs), vectors, ways, results, console)
        finally:  # a device that cannot be started again ends the run, and not what is known by then
            if json_file:
                json_file.write_text(json.dumps([asdict(result) for result in results], indent=1))
            _show(output_console(), results)
        if shrink:
            wanted = _Shrinking(shrink, shrink_most, shrink_tries, deadline)
            _reduce(wanted, _first_failures(vectors, results), opened, console)
    if any(result.verdict == Verdict.FAILED for result in results):
        raise typer.Exit(1)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
        else:
            yield path


def _ways(vector: Vector, modes: Sequence[ExecutionMode] | None, memories: Sequence[MemoryChoice] | None) -> list[Way]:
    """Return the ways in which a test is executed, as many for each test: those asked for, or its own."""
    return list(
        product(
            dict.fromkeys(modes or [ExecutionMode(vector.mode or ExecutionMode.SYNC)]),
            dict.fromkeys(memories or [MemoryChoice(vector.memory or MemoryChoice.ASHMEM)]),
        )
    )


def _run(
    runner: SurvivingRunner,
    vectors: Sequence[Vector],
    ways: Mapping[int, Sequence[Way]],
    results: list[TestResult],
    console: Console,
) -> None:
    with Progress(console=console) as progress:
        task = progress.add_task("tests", total=len(vectors))
        for number, vector in enumerate(vectors):
            results.extend(runner.run(vector, ways[number]))
            progress.advance(task)


def _first_failures(vectors: Sequence[Vector], results: Sequence[TestResult]) -> list[tuple[Vector, TestResult]]:
    """Return the tests that fail, each with the first way of executing it in which it does."""
    ways = len(results) // len(vectors)
    first = (
        next((result for result in results[ways * number : ways * (number + 1)] if result.failure), None)
        for number in range(len(vectors))
    )
    return [(vector, result) for vector, result in zip(vectors, first, strict=True) if result is not None]


@dataclass(frozen=True, slots=True)
class _Shrinking:
    """The options of --shrink."""

    file: Path
    most: int | None
    tries: int
    seconds: float | None


def _reduce(
    wanted: _Shrinking, failing: Sequence[tuple[Vector, TestResult]], opened: RenewableDevice, console: Console
) -> None:
    """Reduce tests, and write and say each as it is found: who does not want to wait for the rest has it."""
    output = output_console()
    if not failing:
        output.print("nothing to reduce: no test fails")
        return
    reduced = failing[: wanted.most]
    with wanted.file.open("w", encoding="utf-8") as lines, RenewableDevice(REFERENCE, _CLIENT) as reference:
        reducer = Reducer(opened, reference, wanted.tries, wanted.seconds)
        for number, (vector, result) in enumerate(reduced, 1):
            with console.status(f"reducing {vector.name}, {number} of {len(reduced)}"):
                found = reducer.reduce(vector, result)
            lines.write(f"{vector_line(found.vector)}\n")
            lines.flush()
            output.print(reduction_words(found), markup=False, soft_wrap=True)
    left = f"; {_more(len(failing) - len(reduced))}" if len(failing) > len(reduced) else ""
    output.print(f"{counted(len(reduced), 'test')} written to {wanted.file}{left}", markup=False, soft_wrap=True)


def _more(tests: int) -> str:
    return "1 more failing test is left as it is" if tests == 1 else f"{tests} more failing tests are left as they are"


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
