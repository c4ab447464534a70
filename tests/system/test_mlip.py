"""mlip among other devices: how values pass between its subgraphs, and what happens if it dies while clients run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.operations.operand_types import F32
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_client import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.mlip_hal import MlipRecipe, random_inputs
from tests.support.npu import SAME
from tests.support.testbeds import framework_over, kill_under_load

NEAR = 0.01


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """Run a framework over two accelerators and the CPUs."""
    with framework_over(
        DeviceEntry(name="tiles", driver="mlip", workers=2, options={"checked": True}),
        DeviceEntry(name="pair", driver="mlip", options={"tiles": 2, "wb_pin_ocm": True}),
        DeviceEntry(driver="cpu_acc"),
        DeviceEntry(driver="cpu_ref"),
    ) as session:
        yield session


def relaxed_network() -> ResolvedModel:
    """Two convolutions, an operation that the accelerator lacks, and another convolution, in relaxed float32."""
    recipe = MlipRecipe(F32)

    def convolved(value: int, depth: int, channels: int) -> int:
        weights = [recipe.weights((channels, 3, 3, depth)), recipe.bias(channels)]
        inputs = [value, *weights, *recipe.integers(SAME, 1, 1, 1)]
        return recipe.operation(OperationType.CONV_2D, inputs, recipe.like())

    features = convolved(convolved(recipe.tensor((1, 16, 16, 8)), 8, 16), 16, 16)
    bent = recipe.operation(OperationType.L2_NORMALIZATION, [features], recipe.like())
    return recipe.finish(convolved(bent, 16, 4))


@pytest.mark.parametrize(
    "pins",
    [
        {"name:operation[013]": "tiles", "op:L2_NORMALIZATION": "cpu_acc"},
        {"name:operation[03]": "tiles", "name:operation1": "pair", "op:L2_NORMALIZATION": "cpu_ref"},
    ],
    ids=["around a CPU", "over two accelerators"],
)
def test_a_relaxed_network_over_several_devices(framework: Framework, pins: dict[str, str]) -> None:
    network = relaxed_network()
    given = {"input0": random_inputs(network)[0]}
    expected = framework.load_model(network.model, devices=["cpu_ref"]).run(given)["output0"]
    model = framework.load_model(network.model, pins=pins)
    np.testing.assert_allclose(model.run(given)["output0"], expected, atol=NEAR)
    _, report = model.run_with_report(given)
    assert {step.device for step in report.steps} == set(pins.values())


def test_the_plan_says_why_an_operation_is_elsewhere(framework: Framework) -> None:
    network = relaxed_network()
    model = framework.load_model(network.model, devices=["tiles", "cpu_acc", "cpu_ref"], partitioner="nnapi")
    (bent,) = (each for each in model.explain().operations if each.device != "tiles")
    assert "L2_NORMALIZATION" in bent.refusals["tiles"]


def test_no_run_is_lost_when_the_device_is_killed(framework: Framework) -> None:
    network = relaxed_network()
    given = {"input0": random_inputs(network)[0]}
    model = framework.load_model(network.model, pins={"name:operation[013]": "tiles"})
    expected = model.run(given)["output0"]

    def run() -> None:
        np.testing.assert_allclose(model.run(given)["output0"], expected, atol=NEAR)

    def is_back() -> bool:
        _, report = model.run_with_report(given)
        return "tiles" in {step.device for step in report.steps}

    kill_under_load(framework, "tiles", run, is_back)
