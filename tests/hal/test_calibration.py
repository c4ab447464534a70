"""The file of what was measured of devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnhal.calibration import VERSION, DeviceCalibration, read_calibration, this_machine, write_calibration

NPU = DeviceCalibration("npu-1", 3.5, 20_000.0, 4, 8.7, 1.1)
CPU = DeviceCalibration("cpu-2", 0.5, 0.0, 1, 2.0, 1.0)
WITHOUT_A_FACTOR = {"version": "1", "factor": 0, "launch_ns": 1, "steps": 1, "error_before": 1, "error_after": 1}


def test_devices_are_kept_by_machine_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(path, {"npu": CPU, "cpu": CPU}, "a board")
    write_calibration(path, {"npu": NPU}, "a board")
    write_calibration(path, {"cpu": CPU})
    assert read_calibration(path, "a board") == {"npu": NPU, "cpu": CPU}
    assert read_calibration(path) == read_calibration(path, this_machine()) == {"cpu": CPU}
    assert read_calibration(path, "another") == {}


def machine(devices: object) -> str:
    return json.dumps({"version": VERSION, "machines": {"m": devices}})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is no calibration"),
        (json.dumps({"version": VERSION + 1}), f"has version {VERSION + 1}, expected {VERSION}"),
        (json.dumps([]), "has version 'list'"),
        (machine([]), "no machines with devices"),
        (machine({"npu": {"factor": 1}}), "missing"),
        (machine({"npu": ["x"]}), "npu"),
        (machine({"npu": WITHOUT_A_FACTOR}), "expected a version, a factor above 0"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=reason):
        read_calibration(path, "m")
