"""Times of devices on a machine beside those of their cost models: made by ``nnhal calibrate``, used if asked for.

A file has the devices of several machines, and for each device the version that was measured: another version, or
another machine, is modelled as before.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nnhal.given_files import MOST_TEXT_BYTES, parse_json, read_given_file
from nnhal.whole_files import write_whole

VERSION = 1
"""Of the file. It grows if a member goes or means something else."""
_LARGEST = 1e9


@dataclass(frozen=True, slots=True)
class DeviceCalibration:
    """One device on one machine."""

    version: str
    """The driver and its version, as the device says."""
    factor: float
    """What an operation takes for each nanosecond that is modelled."""
    launch_ns: float
    """What the launch of a step takes."""
    steps: int
    """The steps that were measured."""
    error_before: float
    """How many times as long as modelled a step took, or as short, in the median."""
    error_after: float
    """The same beside the calibrated model."""

    def operation_ns(self, modelled_ns: Sequence[float]) -> list[float]:
        """Return the times of operations, which are 0 if they are unknown."""
        return [self.factor * each for each in modelled_ns]


def read_calibration(path: Path, machine: str = "") -> dict[str, DeviceCalibration]:
    """Return the devices of a machine by name, of this one if none is named; none if the file does not have it.

    Raises OSError, or ValueError for a file that is no calibration, or of another version.
    """
    machines = _machines(read_given_file(path, MOST_TEXT_BYTES, "a calibration"), path)
    return {
        name: _device(given, f"{path}: {name}") for name, given in machines.get(machine or this_machine(), {}).items()
    }


def write_calibration(path: Path, devices: Mapping[str, DeviceCalibration], machine: str = "") -> None:
    """Keep devices in a file, beside the others that it has. Raises as ``read_calibration``, and OSError."""
    machines = _machines(read_given_file(path, MOST_TEXT_BYTES, "a calibration"), path) if path.exists() else {}
    kept = machines.setdefault(machine or this_machine(), {})
    kept.update({name: asdict(device) for name, device in devices.items()})
    text = json.dumps({"version": VERSION, "machines": machines}, indent=2) + "\n"
    write_whole(path, text.encode(), 0o666, f"{os.getpid()}")


def this_machine() -> str:
    """Return what machines whose devices take as long have in common: the processor, and how many there are."""
    return f"{platform.machine()}, {processor_name()}, {len(os.sched_getaffinity(0))} processors"


def processor_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = (
        line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Hardware", "cpu model"))
    )
    return next(named, "unknown processor")


def _machines(content: bytes, path: Path) -> dict[str, dict[str, Any]]:
    try:
        given = parse_json(content)
    except ValueError as error:
        raise ValueError(f"{path} is no calibration: {error}") from error
    if not isinstance(given, dict) or given.get("version") != VERSION:
        got = given.get("version") if isinstance(given, dict) else type(given).__name__
        raise ValueError(f"{path} has version {got!r}, expected {VERSION}: 'nnhal calibrate' makes a new one")
    machines = given.get("machines")
    if not isinstance(machines, dict) or not all(isinstance(devices, dict) for devices in machines.values()):
        raise ValueError(f"{path} has no machines with devices")
    return machines


def _device(given: Any, what: str) -> DeviceCalibration:
    try:
        device = DeviceCalibration(**given)
        numbers = device.factor, device.launch_ns, device.error_before, device.error_after, device.steps
        is_right = all(isinstance(each, int | float) and math.isfinite(each) and each >= 0 for each in numbers)
    except TypeError as error:
        raise ValueError(f"{what}: {error}") from error
    if not is_right or not isinstance(device.version, str) or not 0 < device.factor <= _LARGEST:
        raise ValueError(f"{what}: got {given!r:.200}, expected a version, a factor above 0 and times")
    return device
