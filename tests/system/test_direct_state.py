"""Models that carry values from run to run, run directly: over one device and over two, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from examples.decode import FIRST, STATES, OnnxRuntime, gpt
from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.remote.faults import FaultControl
from nnhal_client import Framework, connect
from nnhal_client.core.load_options import FallbackName
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.faulty import fault
from tests.support.onnx_models import onnx_model, random
from tests.support.testbeds import own_testbed

DEVICES = ("first", "last")
PINS = {"name:in": "first", "name:kept": "first", "name:sum": "first", "name:tanh": "last", "name:out": "last"}
SIZE = 8
RUNS = 30


def recurrent() -> bytes:
    """``after`` is tanh(x @ w + before @ u), and ``y`` is after @ w."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["read"], "in"),
        helper.make_node("MatMul", ["before", "u"], ["remembered"], "kept"),
        helper.make_node("Add", ["read", "remembered"], ["sum"], "sum"),
        helper.make_node("Tanh", ["sum"], ["after"], "tanh"),
        helper.make_node("MatMul", ["after", "w"], ["y"], "out"),
    ]
    constants = {name: random(SIZE, SIZE, seed=seed, low=-0.5, high=0.5) for seed, name in enumerate("wu")}
    shapes = {"x": (1, SIZE), "before": (1, SIZE)}
    return onnx_model(nodes, shapes, ["y", "after"], constants).SerializeToString()


class Beside:
    """Network in ONNX Runtime, beside it. Its state is fed back by hand."""

    def __init__(self) -> None:
        self._session = onnxruntime.InferenceSession(recurrent(), providers=["CPUExecutionProvider"])
        self._state: Array = np.zeros((1, SIZE), np.float32)

    def step(self, x: Array) -> Array:
        y, self._state = map(np.asarray, self._session.run(["y", "after"], {"x": x, "before": self._state}))
        return y


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two processes of cpu_acc that take faults, and a framework."""
    topology = Topology(device=tuple(DeviceEntry(driver="cpu_acc", name=name) for name in DEVICES))
    with own_testbed(topology, faults=FaultOptions(allowed=True)) as started:
        yield started


@pytest.fixture
def framework(bed: Testbed) -> Iterator[Framework]:
    with connect(bed.framework) as session:
        yield session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recurrent.onnx"
    file.write_bytes(recurrent())
    return file


@pytest.mark.parametrize("pins", [{"name:*": "first"}, PINS], ids=["one device", "two devices"])
def test_a_recurrent_network_remembers_as_onnx_runtime_does(
    framework: Framework, path: Path, pins: dict[str, str]
) -> None:
    with framework.load(path, states={"before": "after"}, pins=pins) as model, model.bind() as binding:
        assert tuple(model.steps) == tuple(dict.fromkeys(pins.values()))
        for _ in range(2):
            beside = Beside()
            for number in range(RUNS):
                binding.inputs["x"][...] = x = random(1, SIZE, seed=number)
                assert binding.run().direct
                np.testing.assert_allclose(binding.outputs["y"], beside.step(x), rtol=1e-4, atol=1e-5)
            binding.reset_state()


def test_a_decoder_with_caches_on_the_device_generates_the_tokens_of_onnx_runtime(
    framework: Framework, tmp_path: Path
) -> None:
    source = gpt(RUNS // 2)  # half of the tokens are forgotten again
    file = tmp_path / "gpt.onnx"
    file.write_bytes(source.SerializeToString())
    alone, token = OnnxRuntime(source), FIRST
    pins = {"name:*": "first"}
    with framework.load(file, states=STATES, pins=pins) as model, model.bind() as binding:
        for position in range(RUNS):
            binding.inputs["token"][...], binding.inputs["position"][...] = token, position
            assert binding.run().direct
            expected = alone.step(token, position)
            np.testing.assert_allclose(binding.outputs["logits"], expected, rtol=1e-4, atol=1e-4)
            token = int(expected.argmax())


@pytest.mark.parametrize(
    ("pins", "method", "fallback"),
    [
        ({"name:*": "first"}, "Channel.Run", "deny"),
        (PINS, "execute", "deny"),
    ],
    ids=["one device", "two devices"],
)
def test_a_run_that_fails_leaves_the_state_as_it_was(
    bed: Testbed, framework: Framework, path: Path, pins: dict[str, str], method: str, fallback: FallbackName
) -> None:
    beside = Beside()
    with (
        FaultControl(bed.endpoint("first")) as first,
        FaultControl(bed.endpoint("last")) as last,
        framework.load(path, states={"before": "after"}, pins=pins, fallback=fallback) as model,
        model.bind() as binding,
    ):
        for number in range(6):
            binding.inputs["x"][...] = x = random(1, SIZE, seed=number)
            if number in (2, 3):  # in either turn
                for control in (first, last):
                    control.set(fault("error", method, name="fails"))
                with pytest.raises(HalError, match="injected fault 'fails'"):
                    binding.run()
                for control in (first, last):
                    control.clear()
            binding.run()
            np.testing.assert_allclose(binding.outputs["y"], beside.step(x), rtol=1e-4, atol=1e-5)
