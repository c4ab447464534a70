"""``nnhal explain``: why a model lies on its devices as it does, and what that costs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from nnhal.arrays import Array
from nnhal_client.cli.ephemeral import ephemeral_framework
from nnhal_client.cli.run import pins_from
from nnhal_client.explain import Measured, page, show
from nnhal_client.framework import Model, RunReport
from nnhal_client.tensors import Tensor
from nnhal_client.up import DEFAULT_TOPOLOGY, DeviceEntry, Topology, read_topology


class Partitioner(StrEnum):
    """How a model is split."""

    LEAST_TIME = "least_time"
    NNAPI = "nnapi"
    CPU_ONLY = "cpu_only"


def explain(
    model: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    devices: Annotated[str, typer.Option(help="Drivers, separated by commas, in order of preference.")] = "",
    topology: Annotated[Path | None, typer.Option(help="A topology file (TOML) instead of --devices.")] = None,
    pin: Annotated[
        list[str] | None, typer.Option(help="name:GLOB=DEVICE or op:TYPE=DEVICE; may be given several times.")
    ] = None,
    partitioner: Annotated[
        Partitioner, typer.Option(help="The plan of least modelled time, of NNAPI's rule, or all on the CPU.")
    ] = Partitioner.LEAST_TIME,
    runs: Annotated[int, typer.Option(help="Runs to measure, with random inputs; 0 for none.", min=0)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with a picture to FILE.")] = None,
) -> None:
    """Say of each operation where it runs and what every other device said, and of each edge what it costs and why."""
    console = Console(stderr=True, soft_wrap=True)
    with ephemeral_framework(_topology(devices, topology), console) as framework:
        with console.status(f"preparing {model.name}"):
            loaded = framework.load(model, pins=pins_from(pin or []), partitioner=partitioner.value)
        explanation = loaded.explain()
        if runs:
            explanation = replace(explanation, measured=_measure(loaded, runs))
    if html:
        html.write_text(page(explanation, f"{model.name} on {', '.join(d.name for d in explanation.devices)}"))
    if as_json:
        print(json.dumps(asdict(explanation)))
    else:
        show(explanation, Console())


def _topology(devices: str, path: Path | None) -> Topology:
    if path:
        return read_topology(path)
    if not devices:
        return DEFAULT_TOPOLOGY
    return Topology(device=tuple(DeviceEntry(driver=name.strip()) for name in devices.split(",")))


def _measure(model: Model, runs: int) -> Measured:
    inputs = {tensor.name: _some_value(tensor) for tensor in model.inputs}
    reports: list[RunReport] = [model.run_with_report(inputs)[1] for _ in range(runs)]
    steps = range(len(model.steps))
    return Measured(
        runs,
        median(report.duration_ns for report in reports),
        tuple(median(report.steps[n].time_on_device_ns for report in reports) for n in steps),
        tuple(median(report.steps[n].time_in_driver_ns for report in reports) for n in steps),
        sum(step.copied_bytes for step in reports[-1].steps),
    )


def _some_value(tensor: Tensor) -> Array:
    """Numbers between 0 and 1; open axes are 1. Raises ValueError for what is no tensor of numbers."""
    if tensor.element_type is None:
        raise ValueError(f"input {tensor.name!r} is no tensor of numbers: say --runs 0")
    shape = () if tensor.scalar else [axis or 1 for axis in tensor.dimensions]
    return np.random.default_rng(0).random(shape).astype(tensor.element_type)
