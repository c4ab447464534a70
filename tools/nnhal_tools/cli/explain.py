"""``nnhal explain``: why each operation runs on its device, and what the plan costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

from nnhal.errors import NnhalError
from nnhal.types.layout import Dimensions
from nnhal_client.explanation import Explanation, Measured
from nnhal_client.model import Model
from nnhal_client.planned import ModelPlan
from nnhal_client.reports import RunReport
from nnhal_hosting.trace import Trace
from nnhal_pages.explanation.fragment import page
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.chosen_devices import DevicesOption, TopologyOption, chosen_topology
from nnhal_tools.cli.ephemeral import ephemeral_framework
from nnhal_tools.cli.model_options import Everything, Lengths, Pins, Shapes, SignatureName, pins_from
from nnhal_tools.explain import plan_words, show, with_unknown_times
from nnhal_tools.given_model import GivenModel, read_model, require_writable
from nnhal_tools.open_dimensions import inputs_that_run, shape_options
from nnhal_tools.trace import add_run

_MOST_NAMED = 16
"""Signatures that a note lists."""


class Partitioner(StrEnum):
    """Rule by which a model is split."""

    LEAST_TIME = "least_time"
    NNAPI = "nnapi"
    CPU_ONLY = "cpu_only"


def explain(
    model: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    devices: DevicesOption = "",
    topology: TopologyOption = None,
    pin: Pins = None,
    dim: Lengths = None,
    shape: Shapes = None,
    signature: SignatureName = "",
    partitioner: Annotated[
        Partitioner, typer.Option(help="The plan of least modelled time, of NNAPI's rule, or all on the CPU.")
    ] = Partitioner.LEAST_TIME,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Let devices compute float32 with the range and precision of float16.")
    ] = False,
    runs: Annotated[
        int, typer.Option(help="Runs to measure, with random inputs; with 0 nothing is prepared.", min=0)
    ] = 20,
    everything: Everything = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the plan's graph to FILE.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Model devices as 'nnhal calibrate' has measured them, by its FILE.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the timeline of the measured runs to FILE, for Perfetto.")
    ] = None,
) -> None:
    """Explain where each operation runs and why the other devices refuse it, and what each edge costs and why.

    nnhal explain examples/mobilenet/model.tflite --devices ethos_n,gpu_acc,cpu_acc
    """
    if trace and not runs:
        raise ValueError("--trace needs runs: got --runs 0")
    chosen = chosen_topology(devices, topology)
    if calibration:
        chosen = chosen.calibrated(calibration)
    pins = pins_from(pin or [], chosen)
    require_writable((html, trace))
    given = read_model(model, dim or (), shape or (), signature)
    given.require_pins(pins)
    console = Console(stderr=True, soft_wrap=True)
    with ephemeral_framework(chosen, console) as framework:
        plan_model = partial(
            framework.plan, model, pins=pins, partitioner=partitioner.value, relaxed=relaxed, signature=signature
        )
        with console.status(f"planning {model.name}"):
            plan = plan_model(dimensions=given.dimensions, explains=not runs)
        explanation, failure, shapes, for_runs = plan.groups[0].explanation, "", dict[str, Dimensions](), list[str]()
        if explanation is None:  # it runs by what comes of the plan, which a device may fail to prepare
            with console.status(f"preparing {model.name}"):
                loaded = framework.load(plan=plan)
            with console.status(f"running {model.name}"):
                shapes, reports, failure = _run(
                    loaded,
                    given,
                    runs,
                    lambda: framework.load(plan=plan_model(dimensions=given.dimensions, fallback="deny")),
                )
            explanation = loaded.explain()
            if shapes:
                for_runs = _planned_for(
                    shapes, partial(plan_model, dimensions={**given.dimensions, **shapes}, explains=True)
                )
            if reports:
                explanation = replace(explanation, measured=_measured(reports, len(loaded.steps)))
            if trace:
                _write_trace(trace, reports, loaded, model.stem)
        explanation = with_unknown_times(explanation)
    if html:
        html.write_text(page(explanation, f"{model.name} on {', '.join(d.name for d in explanation.devices)}"))
    if as_json:
        print(json.dumps({**asdict(explanation), "not_measured": failure, "ran_with": shapes}))
    else:
        _show(explanation, given, [*([f"not measured: {failure}"] if failure else []), *for_runs], everything)


def _show(explanation: Explanation, given: GivenModel, notes: Sequence[str], everything: bool) -> None:
    notes = list(notes)
    if given.signatures:
        notes.append(f"signatures: {', '.join(given.signatures[:_MOST_NAMED])}; --signature chooses one")
    if opened := given.open_inputs():
        notes.append(f"open dimensions: {opened}: costs count each as 1 unless --shape or --dim fixes it")
    show(explanation, output_console(), notes, everything)


def _planned_for(shapes: Mapping[str, Dimensions], plan: Callable[[], ModelPlan]) -> list[str]:
    """Say with which dimensions the runs were made, and what the plan for just these would be."""
    options = shape_options(shapes)
    try:
        explanation = plan().groups[0].explanation
    except NnhalError as error:
        return [f"it ran with {options}, for which no plan can be made: {error}"]
    assert explanation is not None  # as was asked for
    return [f"it ran with {options}, for which the plan is: {plan_words(with_unknown_times(explanation))}"]


def _write_trace(path: Path, reports: Sequence[RunReport], model: Model, name: str) -> None:
    timeline = Trace()
    for number, report in enumerate(reports):
        add_run(timeline, report, model.placements, f"{name} {number}")
    timeline.write(path)


def _run(
    model: Model, given: GivenModel, runs: int, load_strict: Callable[[], Model]
) -> tuple[dict[str, Dimensions], list[RunReport], str]:
    """Return the dimensions that were chosen, the reports of the runs, and why there are none; empty if there are."""
    try:
        inputs = inputs_that_run(model, given, 0, load_strict)
        return given.shapes_of(inputs), [model.run_with_report(inputs)[1] for _ in range(runs)], ""
    except (NnhalError, ValueError) as error:
        return {}, [], str(error)


def _measured(reports: Sequence[RunReport], steps: int) -> Measured:
    """Medians over the runs. A step in a loop counts each time that it was run."""
    of_step = [[step for report in reports for step in report.steps if step.step == number] for number in range(steps)]
    return Measured(
        len(reports),
        median(report.duration_ns for report in reports),
        tuple(median([step.time_on_device_ns for step in taken] or [-1]) for taken in of_step),
        tuple(median([step.time_in_driver_ns for step in taken] or [-1]) for taken in of_step),
        tuple(median([step.copy_duration_ns for step in taken] or [-1]) for taken in of_step),
        sum(step.copied_bytes for step in reports[-1].steps),
        reports[-1].ledger,
    )
