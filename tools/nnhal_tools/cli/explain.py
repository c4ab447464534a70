"""``nnhal explain``: why each operation runs on its device, and what the plan costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

from nnhal.errors import NnhalError
from nnhal_client.explanation import Explanation, Measured
from nnhal_client.model import Model
from nnhal_client.reports import RunReport
from nnhal_hosting.trace import Trace
from nnhal_pages.explanation.fragment import page
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.chosen_devices import DevicesOption, TopologyOption, chosen_topology
from nnhal_tools.cli.ephemeral import ephemeral_framework
from nnhal_tools.cli.model_options import Everything, Lengths, Pins, Shapes, SignatureName, pins_from
from nnhal_tools.explain import show, with_unknown_times
from nnhal_tools.given_model import GivenModel, read_model, require_writable
from nnhal_tools.input_files import random_inputs
from nnhal_tools.trace import add_run

_MOST_NAMED = 16
"""Signatures that a note lists."""


class Partitioner(StrEnum):
    """How a model is split."""

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
    """Explain where each operation runs and why the other devices refuse it, and what each edge costs and why."""
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
        with console.status(f"planning {model.name}"):
            plan = framework.plan(
                model,
                pins=pins,
                partitioner=partitioner.value,
                relaxed=relaxed,
                dimensions=given.dimensions,
                signature=signature,
                explains=not runs,
            )
        explanation, failure = plan.groups[0].explanation, ""
        if explanation is None:  # it runs by what comes of the plan, which a device may fail to prepare
            with console.status(f"preparing {model.name}"):
                loaded = framework.load(plan=plan)
            reports, failure = _run(loaded, runs)
            explanation = loaded.explain()
            if reports:
                explanation = replace(explanation, measured=_measured(reports, len(loaded.steps)))
            if trace:
                _write_trace(trace, reports, loaded, model.stem)
        explanation = with_unknown_times(explanation)
    if html:
        html.write_text(page(explanation, f"{model.name} on {', '.join(d.name for d in explanation.devices)}"))
    if as_json:
        print(json.dumps({**asdict(explanation), "not_measured": failure}))
    else:
        _show(explanation, given, failure, everything)


def _show(explanation: Explanation, given: GivenModel, failure: str, everything: bool) -> None:
    notes = [f"not measured: {failure}"] if failure else []
    if given.signatures:
        notes.append(f"signatures: {', '.join(given.signatures[:_MOST_NAMED])}; --signature chooses one")
    if told := given.open_inputs():
        ran = "; it ran with 1 in their place" if explanation.measured is not None else ""
        notes.append(f"open dimensions: {told}{ran}; --dim and --shape fix them")
    show(explanation, output_console(), notes, everything)


def _write_trace(path: Path, reports: Sequence[RunReport], model: Model, name: str) -> None:
    timeline = Trace()
    for number, report in enumerate(reports):
        add_run(timeline, report, model.placements, f"{name} {number}")
    timeline.write(path)


def _run(model: Model, runs: int) -> tuple[list[RunReport], str]:
    """The reports of the runs, and why there are not as many; empty if there are. Then there are none."""
    try:
        inputs = random_inputs(model.inputs) if runs else {}
        return [model.run_with_report(inputs)[1] for _ in range(runs)], ""
    except (NnhalError, ValueError) as error:
        return [], str(error)


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
