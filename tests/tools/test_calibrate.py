"""Factors that bring cost models nearest to what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnhal_tools.calibrate import MeasuredStep, calibrated
from tests.support.command import nnhal

DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"


def test_the_factor_and_the_launch_are_found() -> None:
    steps = [MeasuredStep(x, 10.0, 3.0 * x + 500.0) for x in (100.0, 1_000.0, 50_000.0)]
    found = calibrated("npu-1", steps)
    assert found.factor == pytest.approx(3.0) and found.launch_ns == pytest.approx(500.0)
    assert found.error_after == pytest.approx(1.0) and found.error_before > 2.9
    assert (found.version, found.steps) == ("npu-1", 3)


def test_steps_of_one_length_tell_the_factor_only() -> None:
    found = calibrated("npu-1", [MeasuredStep(100.0, 10.0, 1_010.0)] * 2)
    assert found.factor == pytest.approx(10.0) and found.launch_ns == 10.0


def test_no_time_is_less_than_nothing() -> None:
    found = calibrated("npu-1", [MeasuredStep(1_000.0, 0.0, 50.0), MeasuredStep(2_000.0, 0.0, 400.0)])
    assert found.launch_ns == 0 and found.factor > 0
    found = calibrated("npu-1", [MeasuredStep(1_000.0, 0.0, 50.0), MeasuredStep(2_000.0, 0.0, 40.0)])
    assert found.launch_ns > 0 and found.factor > 0


def test_nothing_comes_of_no_step() -> None:
    with pytest.raises(ValueError, match="no step"):
        calibrated("npu-1", [])


@pytest.mark.slow
def test_what_was_measured_is_what_plans_are_modelled_by(tmp_path: Path) -> None:
    file, words = tmp_path / "calibration.json", ("--devices", "cpu_ref", "--json")
    made = nnhal("calibrate", str(DIGITS), "--runs", "5", "--out", str(file), *words)
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)["devices"]["cpu_ref"]
    assert told["error_after"] <= told["error_before"] + 1e-6  # of one model: it is met
    (step,) = explained(file, *words)["steps"]
    fitted = told["error_after"]
    assert fitted == pytest.approx(1.0, abs=1e-3)
    content = json.loads(file.read_text())
    (devices,) = content["machines"].values()
    devices["cpu_ref"]["launch_ns"] += 7e9
    file.write_text(json.dumps(content))
    (later,) = explained(file, *words)["steps"]
    assert later["modelled_ns"] == pytest.approx(step["modelled_ns"] + 7e9)


def explained(calibration: Path, *words: str) -> dict[str, list[dict[str, float]]]:
    done = nnhal("explain", str(DIGITS), "--runs", "0", "--calibration", str(calibration), *words)
    assert done.returncode == 0, done.stderr
    plan: dict[str, list[dict[str, float]]] = json.loads(done.stdout)
    return plan
