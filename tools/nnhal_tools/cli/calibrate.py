"""``nnhal calibrate``: how long devices take beside what their cost models say."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal.calibration import DeviceCalibration, this_machine, write_calibration
from nnhal_pages.units import duration, times
from nnhal_tools.calibrate import calibration_of
from nnhal_tools.cli.chosen_devices import DevicesOption, TopologyOption, chosen_topology
from nnhal_tools.cli.ephemeral import ephemeral_framework
from nnhal_tools.given_model import require_writable

_DATA = Path(__file__).parents[1] / "demo" / "data"
_DEMO = [_DATA / "digits.onnx", _DATA / "digits_int8.onnx"]


def calibrate(
    models: Annotated[
        list[Path] | None, typer.Argument(help="ONNX or TFLite models to run, those of the demo without any.")
    ] = None,
    devices: DevicesOption = "",
    topology: TopologyOption = None,
    runs: Annotated[int, typer.Option(help="Measured runs of each model on each device.", min=3)] = 30,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to keep it in, beside other devices and machines.")
    ] = Path("calibration.json"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how long devices take beside their cost models, and keep it for plans that ask for it.

    Each model runs alone on each device that takes all of it, and on others beside the rest of the devices. Afterwards
    'nnhal serve --calibration FILE', 'nnhal explain --calibration FILE' and the line 'calibration = "FILE"' below
    [framework] of a topology model these devices as they were measured on this machine.
    """
    require_writable((out,))
    console = Console(stderr=True, soft_wrap=True)
    found: dict[str, DeviceCalibration] = {}
    notes: list[str] = []
    with ephemeral_framework(chosen_topology(devices, topology), console) as framework:
        for device in framework.devices():
            with console.status(f"measuring {device.name}"):
                measured, refused = calibration_of(framework, device.name, device.version, models or _DEMO, runs)
            notes += refused
            if measured is not None:
                found[device.name] = measured
    if not found:
        raise ValueError("no device has a step of any of the models: " + "; ".join(notes))
    write_calibration(out, found)
    if as_json:
        document = {name: asdict(device) for name, device in found.items()}
        print(json.dumps({"machine": this_machine(), "file": str(out), "devices": document, "notes": notes}))
        return
    for name, own in found.items():
        print(
            f"{name} ({own.version}): {times(own.factor)} the modelled time of operations and "
            f"{duration(own.launch_ns)} a launch; the model was {times(own.error_before)} off, and is "
            f"{times(own.error_after)} now, over {own.steps} steps"
        )
    for note in notes:
        print(note)
    print(f"{out} has it for {this_machine()}; nnhal serve --calibration {out} plans by it")
