"""ethos_u among other devices: what it leaves to them, and what happens if it dies while several clients run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, I32, Q8A
from nnhal.types import Operand, OperationType
from nnhal_client import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.mobilenet import BODY, MobileNet, image
from tests.support.models import Recipe
from tests.support.npu import SAME
from tests.support.testbeds import framework_over, kill_under_load

SRAM = 48 << 10
NEAR = 0.01
"""A difference of probabilities: an operation on 8-bit values may be off by one on another device."""
BODY_ON_THE_NPU = {f"name:*{BODY}/*": "large"}


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """Run a framework over an NPU of little memory, one of much, and the CPUs."""
    with framework_over(
        DeviceEntry(name="small", driver="ethos_u", options={"sram": SRAM, "checked": True}),
        DeviceEntry(name="large", driver="ethos_u", workers=2, options={"checked": True}),
        DeviceEntry(driver="cpu_acc"),
        DeviceEntry(driver="cpu_ref"),
    ) as session:
        yield session


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ethos_u") / "mobilenet.tflite"
    path.write_bytes(MobileNet().content)
    return path


def test_what_does_not_fit_goes_to_the_next_device_with_the_least_size_as_the_reason(
    framework: Framework, network: Path
) -> None:
    model = framework.load(network, devices=["small", "cpu_acc", "cpu_ref"], partitioner="nnapi")
    first, *others = model.explain().operations
    assert first.device == "cpu_acc"
    assert "the least found is" in first.refusals["small"]
    assert f"bytes, there are {SRAM:,} of SRAM" in first.refusals["small"]
    assert "small" in {other.device for other in others}
    reference = framework.load(network, devices=["cpu_ref"])
    (name,) = (each.name for each in model.inputs)
    for key, expected in reference.run({name: image()}).items():
        np.testing.assert_allclose(model.run({name: image()})[key], expected, atol=NEAR)
    with pytest.raises(HalError, match=r"there are [\d,]+ of SRAM"):
        framework.load(network, pins={f"name:*{BODY}/*": "small"})


def test_by_nnapis_rule_the_npu_has_the_whole_of_an_island_of_floats(framework: Framework) -> None:
    """By the types of their inputs MEAN and QUANTIZE would go to the CPU, and the NPU takes no part of it alone."""
    recipe = Recipe()
    given, made = Operand(Q8A, (), 0.05, 117), Operand(Q8A, (), 0.03, 9)
    pooled = recipe.operation(
        OperationType.AVERAGE_POOL_2D,
        [recipe.input(Q8A, (1, 6, 5, 4), 0.05, 117), *recipe.integers(SAME, 1, 1, 3, 3, 0)],
        given,
    )
    reals = recipe.operation(OperationType.DEQUANTIZE, [pooled], Operand(F32))
    axes = recipe.constant(I32, [1, 2])
    mean = recipe.operation(OperationType.MEAN, [reals, axes, *recipe.integers(1)], Operand(F32))
    island = recipe.build(recipe.operation(OperationType.QUANTIZE, [mean], made)).model
    model = framework.load_model(island, devices=["large", "cpu_ref"], partitioner="nnapi")
    (step,) = model.explain().steps
    assert step.device == "large"
    assert f" {step.working_bytes} bytes of SRAM" in step.optimizations[0]
    values = {"input0": np.arange(120, dtype=np.uint8).reshape(1, 6, 5, 4)}
    expected = framework.load_model(island, devices=["cpu_ref"]).run(values)
    np.testing.assert_array_equal(model.run(values)["output0"], expected["output0"])


def test_no_run_is_lost_when_the_device_is_killed(framework: Framework, network: Path) -> None:
    model = framework.load(network, pins=BODY_ON_THE_NPU)
    (name,) = (each.name for each in model.inputs)
    expected = model.run({name: image()})

    def run() -> None:
        for key, values in model.run({name: image()}).items():
            np.testing.assert_allclose(values, expected[key], atol=NEAR)

    def is_back() -> bool:
        _, report = model.run_with_report({name: image()})
        return "large" in {step.device for step in report.steps}

    kill_under_load(framework, "large", run, is_back)
