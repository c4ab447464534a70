"""``nnhal bench MODEL``: what a model of the user's costs, beside its runtime, and where the time goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from nnhal.endpoint import Endpoint
from nnhal_client.model import Model
from nnhal_hosting.trace import Trace
from nnhal_pages.copies import copied_figures, copied_words
from nnhal_pages.document import Figure
from nnhal_pages.report import Column, FigureCards, Name, PagePart, ReportTable, TerminalPart, report_page
from nnhal_pages.terminal import output_console, show_parts
from nnhal_pages.units import beside_model, duration, modelled, size
from nnhal_tools.bench.model import BLOCK, UNRELIABLE, VERSION, BenchedModel, BesideReport, ModelReport, StepTime, Times
from nnhal_tools.bench.model import measure_model as measured
from nnhal_tools.bench.on_devices import Operated, ReportedTime
from nnhal_tools.bench.runner import progress
from nnhal_tools.cli.chosen_devices import DevicesOption, TopologyOption, chosen_topology
from nnhal_tools.cli.ephemeral import ephemeral_testbed
from nnhal_tools.cli.model_options import Lengths, Pins, Shapes, SignatureName, pins_from
from nnhal_tools.cli.run import random_words
from nnhal_tools.given_model import read_model, require_writable
from nnhal_tools.open_dimensions import inputs_that_run
from nnhal_tools.runtimes import RUNTIMES, opened_runtime, runtime_of
from nnhal_tools.trace import add_operations, add_run

_LONGEST_SHOWN, _MOST_FOUND = 3, 5
"""Operations that a summary names, and those that it points at."""
_SHORT_NAME, _LONGEST_NAME, _LONGEST_IN_PAGE = 30, 60, 400
"""Characters of the names of nodes that a summary, a table and a page show: those of some files are lists of names."""


def bench_model(
    model: Annotated[Path, typer.Argument(help="An ONNX or TFLite model; ./hop for a file with a command's name.")],
    devices: DevicesOption = "",
    topology: TopologyOption = None,
    beside: Annotated[
        str,
        typer.Option(
            metavar="ort,litert", help="The runtime to run in this process, by turns; of several, the file's."
        ),
    ] = "",
    pin: Pins = None,
    dim: Lengths = None,
    shape: Shapes = None,
    signature: SignatureName = "",
    rounds: Annotated[int, typer.Option(help="Runs of each side that count, in blocks by turns.", min=10)] = 200,
    seed: Annotated[int, typer.Option(help="Of the random inputs.", min=0)] = 0,
    busy: Annotated[int, typer.Option(help="Processes that compute for themselves meanwhile.", min=0, max=64)] = 0,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all steps, operations and nodes, and how their times came about.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to FILE.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the timeline of the measured runs to FILE, for Perfetto.")
    ] = None,
) -> None:
    """Measure MODEL, beside its runtime, and say where the time goes: by step and by operation.

    nnhal bench examples/mobilenet/model.tflite --beside litert
    """
    chosen = chosen_topology(devices, topology)
    pins = pins_from(pin or [], chosen)
    require_writable((html, trace))
    file = read_model(model, dim or (), shape or (), signature)
    file.require_pins(pins)
    inputs = file.random_inputs(seed)
    runtimes = {name: opened_runtime(name, model) for name in _runtimes_for(model, beside)}
    console = Console(stderr=True, soft_wrap=True)
    with (
        ephemeral_testbed(chosen, console) as (testbed, framework),
        _busy(busy),
        progress(model.name, rounds) as advance,
    ):
        if file.open_inputs():
            load = partial(framework.load, model, pins=pins, dimensions=file.dimensions, signature=signature)
            with load() as tried:
                inputs = inputs_that_run(tried, file, seed, partial(load, fallback="deny"))
        console.print(random_words(inputs, seed, file), markup=False)
        dimensions = {**file.dimensions, **file.shapes_of(inputs)}
        given = BenchedModel(model, inputs, seed, dimensions, runtimes, signature, pins)
        endpoints = {entry.title: testbed.endpoint(entry.title) for entry in chosen.device}
        operated = Operated(Endpoint(testbed.framework, "framework"), endpoints, testbed.admin_key)
        report, loaded = measured(framework, operated, given, rounds, advance)
    if trace:
        _write_trace(report, loaded, trace)
    if html:
        html.write_text(report_page(f"{model.name} on {', '.join(endpoints)}", _sections(report), ""))
    if as_json:
        print(json.dumps(as_dict(report), allow_nan=False))
        return
    if everything:
        show_parts([*_tables(report, _LONGEST_NAME), *_notes(report), *_found(report)], output_console())
    else:
        show_parts(list(_summary(report)), output_console())


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Have processes compute as long as this process lives and is in the context."""
    code = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    children = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def _runtimes_for(model: Path, beside: str) -> list[str]:
    """The runtimes that are named; of all of them, the one that reads the file."""
    named = list(dict.fromkeys(filter(None, map(str.strip, beside.split(",")))))
    return [runtime_of(model)] if set(named) == set(RUNTIMES) else named


def as_dict(report: ModelReport) -> dict[str, object]:
    """Return the JSON of a report, with its version (docs/benchmarks.md has its form)."""
    found = asdict(replace(report, reports=()))
    del found["reports"], found["doubtful_steps"]
    return {"version": VERSION, **found, "copied": report.copied._asdict()}


def _sections(report: ModelReport) -> Iterator[tuple[str, Sequence[PagePart]]]:
    yield "In short", [_cards(report)]
    yield "What takes ten times its share", _found(report)
    yield from ((table.title, [table]) for table in _tables(report, _LONGEST_IN_PAGE))
    yield "Notes", _notes(report)


def _summary(report: ModelReport) -> Iterator[TerminalPart]:
    """Say in 20 lines what a run costs, what takes longest, what is pointed at and what is to be doubted."""
    yield next(_tables(report, _LONGEST_NAME))
    measured, copied, *others = _notes(report)
    yield from (measured, copied)
    rows = [row for row in _sorted_rows(report) if row.reported_ns >= 0 and row.step not in report.doubtful_steps]
    if rows:
        named = (f"{row.types} {_shortened(row.nodes, _SHORT_NAME)}".rstrip() for row in rows)
        longest = [f"{name} {duration(row.reported_ns)}" for name, row in zip(named, rows, strict=True)]
        more = len(longest) - _LONGEST_SHOWN
        yield f"longest on devices: {', '.join(longest[:_LONGEST_SHOWN])}" + (f" and {more} more" if more > 0 else "")
    yield from [note for note in others if note.endswith(UNRELIABLE)]
    found = _found(report)
    yield from found[:_MOST_FOUND]
    if len(found) > _MOST_FOUND:
        yield f"and {len(found) - _MOST_FOUND} more that take ten times their share"
    again = sum(filter(None, (*report.prepared_again.values(), *report.bound_again.values())))
    if again:
        yield f"during the rounds devices prepared models or bound executions {again} times: plans were made again"
    yield "--all shows every step and operation, and how their times came about"


def _sides(report: ModelReport) -> list[tuple[str, Times, BesideReport | None]]:
    own = "nnhal, directly" if report.is_direct else "nnhal, through the framework"
    return [(own, report.nnhal, None), *((each.runtime, each.times, each) for each in report.beside)]


def _tables(report: ModelReport, longest_name: int) -> Iterator[ReportTable[Any]]:
    sides: list[Column[tuple[str, Times, BesideReport | None]]] = [
        Column("side", lambda row: row[0]),
        Column("p50", lambda row: duration(row[1].p50_ns), number=True),
        Column("p90", lambda row: duration(row[1].p90_ns), number=True),
        Column("p99", lambda row: duration(row[1].p99_ns), number=True),
        Column("shortest", lambda row: duration(row[1].least_ns), number=True),
        Column("nnhal / it", lambda row: f"{row[2].ratio:.2f}" if row[2] else "", number=True),
        Column("largest difference", lambda row: _difference(row[2]), number=True),
    ]
    yield ReportTable(f"A run, {report.rounds} of each side in blocks of {BLOCK} by turns", sides, _sides(report))
    steps: list[Column[StepTime]] = [
        Column("step", lambda step: str(step.step)),
        Column("device", lambda step: step.device),
        Column("operations", lambda step: _types(step.operations), wraps=True),
        Column("on device", lambda step: duration(step.device_ns), number=True),
        Column("its time is", lambda step: "modelled" if step.is_modelled else "measured"),
        Column("by the cost model", lambda step: modelled(step.modelled_ns), number=True),
    ]
    yield ReportTable("Steps, in runs that are measured inside", steps, report.steps)
    rows: list[Column[_OperationRow]] = [
        Column("operation", lambda row: row.types),
        Column("nodes", lambda row: Name(_shortened(row.nodes, longest_name) or "-"), wraps=True),
        Column("step", lambda row: str(row.step)),
        Column("on device", lambda row: duration(row.reported_ns) if row.reported_ns >= 0 else "", number=True),
        Column("whose time", lambda row: row.source),
        Column("by the cost model", lambda row: modelled(row.modelled_ns), number=True),
    ]
    yield ReportTable("Operations, those that take longest", rows, _sorted_rows(report))
    others = [(t.name, f"step {t.step}, {t.device}", t.duration_ns) for t in report.on_devices if not t.operations]
    others += [(o.nodes[0], f"{o.source}, profiled", o.duration_ns) for o in report.operations if o.step < 0]
    nodes: list[Column[tuple[str, str, float]]] = [
        Column("node", lambda row: Name(_shortened(row[0], longest_name)), wraps=True),
        Column("where", lambda row: row[1]),
        Column("time", lambda row: duration(row[2]), number=True),
    ]
    if others:
        longest = sorted(others, key=lambda row: -row[2])
        yield ReportTable("Nodes of runtimes, and what is none of the plan's operations", nodes, longest)


class _OperationRow(NamedTuple):
    """Operations of the plan that a device runs as one."""

    types: str
    nodes: str
    step: int
    source: str
    reported_ns: float
    """By the device; -1 if it does not say."""
    modelled_ns: float


def _sorted_rows(report: ModelReport) -> list[_OperationRow]:
    return sorted(_operation_rows(report), key=lambda row: (-row.reported_ns, -row.modelled_ns))


def _operation_rows(report: ModelReport) -> Iterator[_OperationRow]:
    planned = [each for each in report.operations if each.step >= 0]
    reported: dict[tuple[int, ...], list[ReportedTime]] = {}
    for each in report.on_devices:
        if each.operations:
            reported.setdefault(each.operations, []).append(each)
    covered = {number for numbers in reported for number in numbers}
    for numbers in (*reported, *((number,) for number in range(len(planned)) if number not in covered)):
        own = [planned[number] for number in numbers]
        times = reported.get(numbers, [])
        how = f", {'modelled' if times[0].is_modelled else 'measured'}" if times else ""
        yield _OperationRow(
            " + ".join(each.type for each in own),
            ", ".join(node for each in own for node in each.nodes),
            own[0].step,
            own[0].source + how,
            sum(each.duration_ns for each in times) if times else -1.0,
            sum(each.duration_ns for each in own),
        )


def _shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _difference(beside: BesideReport | None) -> str:
    if beside is None:
        return ""
    return "not comparable" if beside.largest_difference is None else f"{beside.largest_difference:.2g}"


def _types(operations: Sequence[str]) -> str:
    return operations[0] if len(operations) == 1 else f"{len(operations)} operations"


def _cards(report: ModelReport) -> FigureCards:
    cards = [Figure(name, duration(times.p50_ns), "median of a run") for name, times, _ in _sides(report)]
    return FigureCards([*cards, *(Figure(f"nnhal / {b.runtime}", f"{b.ratio:.2f}", "median") for b in report.beside)])


def _notes(report: ModelReport) -> list[str]:
    again = [
        f"{name}: during the rounds {count} models were prepared and {report.bound_again[name]} executions bound"
        for name, count in report.prepared_again.items()
        if count is not None
    ]
    measured = (
        f"nnhal takes {beside_model(report.nnhal.p50_ns, report.modelled_ns)}; modelled {modelled(report.modelled_ns)}"
    )
    copied = f"copied in a run: {copied_words(copied_figures(report.copied, size))}"
    return [measured, copied, *again, *report.notes]


def _found(report: ModelReport) -> list[str]:
    if report.pointed_at or any(note.endswith(UNRELIABLE) for note in report.notes):
        return list(report.pointed_at)
    return ["nothing takes ten times its share"]


def _write_trace(report: ModelReport, model: Model, path: Path) -> None:
    timeline = Trace()
    times = {
        step: [(each.name, each.duration_ns) for each in reported]
        for step, reported in groupby(report.on_devices, lambda each: each.step)
    }
    for number, run in enumerate(report.reports):
        add_run(timeline, run, model.placements, f"{path.stem} {number}")
        add_operations(timeline, run, times)
    timeline.write(path)
