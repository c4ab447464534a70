"""Times of steps beside those of their cost models, and the factors that bring the models nearest to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from nnhal.calibration import DeviceCalibration
from nnhal.errors import NnhalError
from nnhal_client.framework import Framework
from nnhal_pages.text import shortened
from nnhal_tools.input_files import random_inputs

_REASON = 200
_WARM_UP = 3
_LEAST_FACTOR = 1e-3
_SAME = 1.05
"""Modelled times that differ by less tell nothing of how a launch and operations share the measured time."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step that ran alone on its device. Times are in nanoseconds."""

    operations_ns: float
    """The modelled time of its operations."""
    launch_ns: float
    """The modelled time of its launch."""
    measured_ns: float
    """The median, without what was copied."""


def measured_steps(framework: Framework, device: str, model: Path, runs: int) -> Iterator[MeasuredStep]:
    """Run a model, and yield the steps of one device: alone if it takes all of the model, else beside the others.

    Raises NnhalError if the model does not run.
    """
    try:
        loaded = framework.load(model, devices=[device])
    except NnhalError:
        loaded = framework.load(model)
    try:
        explained, inputs = loaded.explain(), random_inputs(loaded.inputs)
        for _ in range(_WARM_UP):
            loaded.run(inputs)
        reports = [loaded.run_with_report(inputs)[1] for _ in range(runs)]
        for number, step in enumerate(explained.steps):
            if step.device != device:
                continue
            own = [story.modelled_ns for story in explained.operations if story.step == number]
            took = [
                each.duration_ns - max(each.copy_duration_ns, 0)
                for report in reports
                for each in report.steps
                if each.step == number
            ]
            operations = sum(own)
            if took and operations > 0:
                yield MeasuredStep(operations, max(step.modelled_ns - operations, 0.0), median(took))
    finally:
        loaded.unload()


def calibrated(version: str, steps: Sequence[MeasuredStep]) -> DeviceCalibration:
    """Return the factor and the launch that make the least sum of squares of relative errors.

    Raises ValueError without steps.
    """
    if not steps:
        raise ValueError("no step was measured")
    factor, launch = _fitted(steps)
    before = _error((step.measured_ns, step.operations_ns + step.launch_ns) for step in steps)
    after = _error((step.measured_ns, factor * step.operations_ns + launch) for step in steps)
    return DeviceCalibration(version, factor, launch, len(steps), before, after)


def _fitted(steps: Sequence[MeasuredStep]) -> tuple[float, float]:
    modelled = [step.operations_ns for step in steps]
    if max(modelled) <= min(modelled) * _SAME:  # one equation for two unknowns: the launch stays, if it is less
        launch = min(median(step.launch_ns for step in steps), min(step.measured_ns for step in steps) / 2)
        return median((step.measured_ns - launch) / step.operations_ns for step in steps), launch
    # measured = factor * operations + launch, each equation divided by what was measured
    rows = [(step.operations_ns / step.measured_ns, 1 / step.measured_ns) for step in steps]
    a, b, c = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    p, q = sum(row[0] for row in rows), sum(row[1] for row in rows)
    determinant = a * c - b * b
    factor, launch = (c * p - b * q) / determinant, (a * q - b * p) / determinant
    if launch < 0:
        return p / a, 0.0
    if factor <= 0:  # what is modelled longer takes no longer: the launch is all there is to say
        return _LEAST_FACTOR, q / c
    return factor, launch


def _error(pairs: Iterable[tuple[float, float]]) -> float:
    return median(max(measured / modelled, modelled / measured) for measured, modelled in pairs)


def calibration_of(
    framework: Framework, device: str, version: str, models: Sequence[Path], runs: int
) -> tuple[DeviceCalibration | None, list[str]]:
    """Measure models on a device; None if it had a step of none of them. The sentences say of which, and why."""
    steps: list[MeasuredStep] = []
    refused = []
    for model in models:
        try:
            found = list(measured_steps(framework, device, model, runs))
        except (NnhalError, ValueError) as error:
            refused.append(f"{model.name} does not run with {device}: {shortened(str(error), _REASON)}")
            continue
        steps += found
        if not found:
            refused.append(f"{device} has no step of {model.name}, as 'nnhal explain' explains")
    return calibrated(version, steps) if steps else None, refused
