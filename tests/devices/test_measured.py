"""What operations take on the CPU devices, as their figures measure it."""

from __future__ import annotations

import pytest

from nnhal.operations._types import F32
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc import profile
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref import measured
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions, PrepareOptions, ShownWorkload
from nnhal_devices.figures import WorkloadFigures
from nnhal_devices.measured import measured_figures
from tests.support.agreement import like
from tests.support.endless import endless_model
from tests.support.models import Recipe
from tests.support.onnx_models import resolved

DRIVERS = [pytest.param(CpuRef(), id="cpu_ref"), pytest.param(CpuAcc(DriverOptions()), id="cpu_acc")]


def _figures(driver: Driver, model: ResolvedModel) -> WorkloadFigures:
    workload = driver.prepare(model, PrepareOptions())
    assert isinstance(workload, ShownWorkload)
    return workload.figures()


def _sum_and_tanh(dimensions: Dimensions) -> ResolvedModel:
    recipe = Recipe()
    given = recipe.input(F32, dimensions)
    total = recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(F32))
    return recipe.build(recipe.operation(OperationType.TANH, [total], like(F32)))


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_operation_has_its_time_after_the_one_before(driver: Driver) -> None:
    (figure,) = _figures(driver, _sum_and_tanh((4, 256))).times
    assert (figure.unit, figure.lanes) == ("ns", ("CPU",))
    names = ("operation 0 (ADD)", "operation 1 (TANH)")
    assert all(span.name.startswith(name) for span, name in zip(figure.spans, names, strict=True))
    first, second = figure.spans
    assert 0 == first.begin < first.end == second.begin < second.end


@pytest.mark.parametrize("driver", DRIVERS)
def test_there_are_no_times_if_lengths_of_inputs_are_open(driver: Driver) -> None:
    assert _figures(driver, _sum_and_tanh((0, 256))) == WorkloadFigures()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_measurement_that_would_not_end_is_given_up(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "LONGEST_NS", 20_000_000)
    monkeypatch.setattr(profile, "LONGEST_NS", 20_000_000)
    assert _figures(driver, resolved(endless_model())) == WorkloadFigures()


def test_nothing_measured_is_no_figure() -> None:
    assert measured_figures([]) == WorkloadFigures()
