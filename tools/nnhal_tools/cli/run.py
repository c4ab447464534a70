"""``nnhal run``: one inference, on processes of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from nnhal.arrays import Array
from nnhal.extensions.values import Value
from nnhal_client.model import Model
from nnhal_client.reports import RunReport
from nnhal_hosting.trace import Trace
from nnhal_pages.terminal import output_console, show_parts, show_table
from nnhal_tools.cli.chosen_devices import DevicesOption, TopologyOption, chosen_topology
from nnhal_tools.cli.ephemeral import ephemeral_framework
from nnhal_tools.cli.model_options import Lengths, Pins, Shapes, SignatureName, pins_from
from nnhal_tools.explain import ledger_parts
from nnhal_tools.given_model import GivenModel, read_model, require_writable
from nnhal_tools.input_files import read_inputs
from nnhal_tools.open_dimensions import inferred, inputs_that_run
from nnhal_tools.paint import unwritten_outputs
from nnhal_tools.runtimes import RuntimeDifference, differences, opened_runtime, place_alike
from nnhal_tools.trace import add_run

_SHOWN = 10
"""Values of an output that are printed."""


def run(
    model: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="FILE.npz, FILE.npy for a model of one input, or NAME=FILE.npy. Random numbers without it.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Save the outputs as FILE.npz.")] = None,
    devices: DevicesOption = "",
    topology: TopologyOption = None,
    pin: Pins = None,
    dim: Lengths = None,
    shape: Shapes = None,
    signature: SignatureName = "",
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Let devices compute float32 with the range and precision of float16.")
    ] = False,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show what was copied for each use of a value.")] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the run's timeline to FILE, for Perfetto or chrome://tracing.")
    ] = None,
    paint_outputs: Annotated[
        bool,
        typer.Option(
            "--paint-outputs", help="Run it twice more, and say which outputs were not written: exit status 1."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of random inputs.", min=0)] = 0,
    repeat: Annotated[int, typer.Option(help="Runs; their times are printed if there are several.", min=1)] = 1,
    compare: Annotated[
        str,
        typer.Option(
            metavar="ort|litert",
            help="Compare the outputs with those of a runtime in this process: exit status 1 if they are apart.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run one inference: start devices and a framework, load MODEL, run it, show or save what comes out.

    nnhal run examples/mobilenet/model.tflite --input examples/mobilenet/image.npy

    nnhal run examples/mobilenet/model.tflite --repeat 5 --compare litert
    """
    console = Console(stderr=True, soft_wrap=True)
    chosen = chosen_topology(devices, topology)
    pins = pins_from(pin or [], chosen)
    require_writable((output, trace))
    given = read_model(model, dim or (), shape or (), signature)
    given.require_pins(pins)
    if inputs:
        arrays = read_inputs(inputs, [tensor.name for tensor in given.inputs])
        given.require_inputs(arrays)
    else:
        arrays = given.random_inputs(seed)
    runtime = opened_runtime(compare, model) if compare else None
    with ephemeral_framework(chosen, console) as framework:
        load = partial(
            framework.load, model, pins=pins, relaxed=relaxed, dimensions=given.dimensions, signature=signature
        )
        with console.status(f"preparing {model.name}"):
            loaded = load()
        if not inputs:
            with console.status(f"running {model.name}"):
                arrays = inputs_that_run(loaded, given, seed, partial(load, fallback="deny"))
            console.print(f"without --input: {random_words(arrays, seed, given)}", markup=False)
        outputs, reports = inferred(loaded, arrays, repeat)
        report, apart = reports[0], list[RuntimeDifference]()
        if runtime is not None:
            place_alike(runtime, arrays)
            runtime.run()
            apart = differences(outputs, runtime.outputs())
        if output:
            with output.open("wb") as file:
                np.savez(file, **outputs)
        if trace:
            timeline = Trace()
            add_run(timeline, report, loaded.placements, model.stem)
            timeline.write(trace)
        left = unwritten_outputs(loaded, arrays) if paint_outputs else {}
        if as_json:
            found = _as_dict(loaded, outputs, report)
            if paint_outputs:
                found["unwritten"] = {name: unwritten._asdict() for name, unwritten in left.items()}
            if repeat > 1:
                found["durations_ns"] = [each.duration_ns for each in reports]
            if compare:
                found["compared"] = [
                    {"output": o.name, "largest_difference": _finite(o.largest), "limit": o.limit} for o in apart
                ]
            print(json.dumps(found))
        else:
            _show(loaded, outputs, report, output)
            if ledger:
                show_parts(ledger_parts(report.ledger), output_console())
            for line in (*_times_in_words(reports), *_differences_in_words(apart, compare)):
                output_console().print(line, markup=False, soft_wrap=True)
            for name, unwritten in left.items():
                output_console().print(f"{name}: {unwritten}", markup=False, soft_wrap=True)
    if left or any(each.is_beyond for each in apart):
        raise typer.Exit(1)


def random_words(arrays: Mapping[str, Array], seed: int, given: GivenModel) -> str:
    """Say which random inputs a model gets, and how to choose the lengths of dimensions that are open."""
    shapes = ", ".join(f"{name} {array.dtype} {list(array.shape)}" for name, array in arrays.items())
    words = f"random inputs of seed {seed}, {shapes or 'since the model has none'}"
    opened = given.open_inputs()
    return (
        f"{words}; open dimensions, {opened}, are the first tried that run: --shape chooses them" if opened else words
    )


def _times_in_words(reports: Sequence[RunReport]) -> Iterator[str]:
    if len(reports) > 1:
        times = [report.duration_ns / 1e3 for report in reports]
        yield (
            f"{len(times)} runs: {np.median(times):,.0f} µs in the median, {min(times):,.0f} the shortest, "
            f"{max(times):,.0f} the longest, {times[0]:,.0f} the first"
        )


def _differences_in_words(apart: Sequence[RuntimeDifference], runtime: str) -> Iterator[str]:
    for each in apart:
        verdict = "apart" if each.is_beyond else "alike"
        yield f"{each.name}: {verdict}, largest difference to {runtime} {each.largest:.3g}, {each.limit:.3g} is allowed"


def _finite(number: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return number if np.isfinite(number) else None


def _as_dict(model: Model, outputs: Mapping[str, Value], report: RunReport) -> dict[str, object]:
    return {
        "outputs": {name: np.asarray(value).tolist() for name, value in outputs.items()},
        "placements": [
            {"nodes": p.nodes, "operation": p.operation, "device": p.device, "step": p.step} for p in model.placements
        ],
        "steps": [
            {
                "step": step.step,
                "device": step.device,
                "duration_ns": step.duration_ns,
                "time_on_device_ns": step.time_on_device_ns,
                "copied_bytes": step.copied_bytes,
                "started_ns": step.started_ns,
                "ended_ns": step.ended_ns,
            }
            for step in report.steps
        ],
        "ledger": [asdict(entry) for entry in report.ledger],
        "duration_ns": report.duration_ns,
        "arena_bytes": model.arena_bytes,
    }


def _show(model: Model, outputs: Mapping[str, Value], report: RunReport, output: Path | None) -> None:
    console = output_console()
    table = Table("step", "device", "operations", "on device", "copied")
    for step in report.steps:
        operations = sum(p.step == step.step for p in model.placements)
        table.add_row(
            str(step.step),
            step.device,
            str(operations),
            f"{step.time_on_device_ns / 1e3:.0f} µs",
            f"{step.copied_bytes} B",
        )
    show_table(table, console)
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray):
            console.print(f"{name}: {value}", markup=False)
            continue
        view: Array = value
        values = np.array2string(view.reshape(-1)[:_SHOWN], precision=4, separator=" ", max_line_width=console.width)
        more = f" … {view.size - _SHOWN} more" if view.size > _SHOWN else ""
        console.print(f"{name} {view.dtype} {list(view.shape)}: {values}{more}", markup=False)
    if output:
        console.print(f"saved to {output}", markup=False)
