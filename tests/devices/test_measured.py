"""Times of operations on the CPU devices, by a clock."""

from __future__ import annotations

from threading import Timer

import pytest
from onnx import helper

from nnhal.clock import now_ns
from nnhal.operations.operand_types import F32
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Control, Driver, DriverOptions, PrepareOptions, TimedWorkload
from nnhal_devices.figures import OperationTimes
from nnhal_devices.measured import NO_ZEROS
from tests.devices.cpu_acc.test_runs import chain
from tests.support.agreement import like
from tests.support.endless import endless_model
from tests.support.models import Recipe
from tests.support.onnx_models import onnx_model, resolved

DRIVERS = [pytest.param(CpuRef(), id="cpu_ref"), pytest.param(CpuAcc(DriverOptions()), id="cpu_acc")]


def _times(driver: Driver, model: ResolvedModel, control: Control | None = None) -> OperationTimes:
    workload = driver.prepare(model, PrepareOptions())
    assert isinstance(workload, TimedWorkload)
    return workload.operation_times(control or Control())


def _sum_and_tanh(dimensions: Dimensions) -> ResolvedModel:
    recipe = Recipe()
    given = recipe.input(F32, dimensions)
    total = recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(F32))
    return recipe.build(recipe.operation(OperationType.TANH, [total], like(F32)))


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_operation_has_its_time(driver: Driver) -> None:
    told = _times(driver, _sum_and_tanh((4, 256)))
    assert (told.unit, told.is_modelled, told.note) == ("ns", False, "measured in 20 runs on zeros")
    assert [each.operations for each in told.times] == [(0,), (1,)]
    names = ("operation 0 (ADD)", "operation 1 (TANH)")
    assert all(each.name.startswith(name) for each, name in zip(told.times, names, strict=True))
    assert all(each.duration > 0 for each in told.times)


@pytest.mark.parametrize("driver", DRIVERS)
def test_nodes_of_an_operation_that_is_a_graph_are_told_one_by_one(driver: Driver) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="low"), helper.make_node("Tanh", ["a"], ["y"])]
    message = onnx_model(nodes, {"x": [2]}, ["y"])
    told = _times(driver, chain([message.SerializeToString()]))
    assert [(each.name, each.operations) for each in told.times] == [("low", (0,)), ("y", (0,))]


@pytest.mark.parametrize("driver", DRIVERS)
def test_there_are_no_times_if_lengths_of_inputs_are_open(driver: Driver) -> None:
    assert _times(driver, _sum_and_tanh((0, 256))) == NO_ZEROS


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_measurement_that_would_not_end_is_given_up(driver: Driver) -> None:
    seconds = 0.02
    control = Control(deadline_ns=now_ns() + int(seconds * 1e9))  # before the timer, so that a run it misses is none
    timer = Timer(seconds, control.interrupt)
    timer.start()
    told = _times(driver, resolved(endless_model()), control)
    assert told == OperationTimes(note="no run on zeros succeeded in time")
    timer.join()
