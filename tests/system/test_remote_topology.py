"""A testbed whose topology has a device on another host: here another process, over loopback."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.types import Operand, OperandType, OperationType
from nnhal_client import Binding, Framework, connect
from nnhal_tools.demo.digits import HEAD_PINS, INPUT, classify_alone, data, held_out
from nnhal_tools.up import Testbed
from nnhal_tools.up.topology import read_topology
from tests.support.far_devices import Served, far_device
from tests.support.processes import WARM
from tests.support.subgraphs import Program
from tests.support.waiting import wait_for_death, wait_until

IMAGES = 20
TOPOLOGY = """
[[device]]
driver = "cpu_acc"

[[device]]
name = "npu-7"
endpoint = "tcp://{address}"

[[device]]
driver = "cpu_ref"
"""


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def far(directory: Path) -> Iterator[Served]:
    with far_device(directory) as served:
        yield served


@pytest.fixture(scope="module")
def bed(directory: Path, far: Served) -> Iterator[Testbed]:
    path = directory / "topology.toml"
    path.write_text(TOPOLOGY.format(address=far.address))
    with Testbed(read_topology(path), directory / "bed", zygote=WARM) as started:
        yield started


@pytest.fixture
def framework(bed: Testbed) -> Iterator[Framework]:
    with connect(bed.framework) as session:
        yield session


def classified(framework: Framework, pins: dict[str, str]) -> tuple[np.ndarray, set[str]]:
    """The probabilities of some digits, and the devices that took part."""
    digits = held_out()
    with framework.load(str(data("digits.onnx")), pins=pins) as model, model.bind() as binding:
        (output,) = binding.outputs.values()
        found = np.empty((IMAGES, output.size), np.float32)
        for number, image in enumerate(digits.images[:IMAGES]):
            binding.inputs[INPUT][...] = image
            binding.run()
            found[number] = output.reshape(-1)
        return found, {placement.device for placement in model.placements}


def test_digits_are_split_over_a_device_here_and_one_there(framework: Framework) -> None:
    pins = {"name:conv*": "cpu_acc"} | dict.fromkeys(HEAD_PINS["float32"], "npu-7")
    found, devices = classified(framework, pins)
    assert devices == {"cpu_acc", "npu-7"}
    np.testing.assert_allclose(found, classify_alone("float32", held_out())[:IMAGES], rtol=1e-4, atol=1e-6)


def test_the_device_there_is_preferred_only_if_the_wire_is_worth_it(framework: Framework) -> None:
    _, devices = classified(framework, {})
    assert devices == {"cpu_acc"}


def test_values_that_only_the_device_there_uses_do_not_travel(framework: Framework) -> None:
    program, value = Program(), Operand(OperandType.TENSOR_FLOAT32, (256,))
    main = program.graph()
    x, none = main.input(value.dimensions, OperandType.TENSOR_FLOAT32), main.constant(0, OperandType.INT32)
    doubled, square = (main.operation(code, [x, x, none], value) for code in (OperationType.ADD, OperationType.MUL))
    narrowed = main.operation(OperationType.TANH, [doubled], value)
    main.returns(main.operation(OperationType.ADD, [narrowed, square, none], value))
    pins = {"op:ADD": "npu-7", "op:MUL": "npu-7", "op:TANH": "cpu_acc"}
    with framework.load_model(program.model(), pins=pins) as model, model.bind(measure_timing=True) as binding:
        values = np.linspace(-1, 1, 256, dtype=np.float32)
        binding.inputs["input0"][...] = values
        report = binding.run()
        np.testing.assert_allclose(binding.outputs["output0"], np.tanh(2 * values) + values * values, atol=1e-5)
        sent = [step.copied_bytes for step in report.steps if step.device == "npu-7"]
    assert sent == [2 * value_bytes(value), 2 * value_bytes(value)]


def test_a_device_that_is_lost_is_replaced_and_used_again_when_it_is_back(
    bed: Testbed, framework: Framework, far: Served, directory: Path
) -> None:
    with (
        framework.load(str(data("digits.onnx")), pins={"name:*": "npu-7"}) as model,
        model.bind(measure_timing=True) as binding,
    ):
        binding.inputs[INPUT][...] = held_out().images[0]
        binding.run()
        (output,) = binding.outputs.values()
        expected = output.copy()
        near = bed.pid("npu-7")
        os.kill(far.child.pid, signal.SIGKILL)
        wait_for_death(near)
        report = binding.run()
        assert {step.device for step in report.steps} == {"cpu_ref"}
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-6)
        far.child.stop()
        with far_device(directory, listen=far.address) as again:
            wait_until(lambda: ran_on(binding) == {"npu-7"}, "the device is used again", 60)
            assert again.usage().prepared_models > 0


def value_bytes(value: Operand) -> int:
    """The size of a float32 value."""
    return 4 * int(np.prod(value.dimensions))


def ran_on(binding: Binding) -> set[str]:
    """Run once more, and return the devices that took part."""
    return {step.device for step in binding.run().steps}
