"""A model that carries values from run to run, for native clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE
from nnhal_client import Framework, connect
from nnhal_client.aio import AsyncFramework
from nnhal_client.aio import connect as connect_async
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.command import nnhal
from tests.support.processes import WARM
from tests.support.stateful_models import running_total
from tests.support.tflite_variables import running_sum
from tests.support.waiting import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sum.tflite"
    file.write_bytes(running_sum())
    return file


def test_each_binding_carries_a_state_of_its_own(framework: Framework, path: Path) -> None:
    with framework.load(path) as model, model.bind() as one, model.bind(measure_timing=True) as other:
        assert [tensor.name for tensor in (*model.inputs, *model.outputs, *model.states)] == ["x", "y", "sum"]
        for binding in (one, other):
            binding.inputs["x"][...] = 1
        for expected in (11, 12, 13):
            one.run()
            assert one.outputs["y"].tolist() == [expected, expected + 10, expected + 20]
        report = other.run()
        assert other.outputs["y"][0] == 11
        assert sum(step.copied_bytes for step in report.steps) == 0
        one.reset_state()
        one.run()
        assert one.outputs["y"][0] == 11
        other.run()
        assert other.outputs["y"][0] == 12


def test_runs_with_a_state_are_direct_in_turns(framework: Framework, path: Path) -> None:
    with framework.load(path) as model, model.bind() as binding, model.bind() as other, model.bind(direct=False) as far:
        expected = 10
        for bound in (binding, other, far):
            bound.inputs["x"][...] = 1
        for number in range(40):
            is_late = number % 7 in (2, 3, 5)  # a run with a deadline goes through the framework, in the same turns
            report = binding.run(now_ns() + 10**12 if is_late else NO_DEADLINE)
            expected += 1
            assert report.direct is not is_late
            assert list(report.dimensions) in ([], ["y"])
            assert binding.outputs["y"].tolist() == [expected, expected + 10, expected + 20]
            if number in (12, 13, 29):
                binding.reset_state()
                expected = 10
        assert other.run().direct
        assert other.outputs["y"][0] == 11
        assert not far.run().direct
        assert far.outputs["y"][0] == 11


def test_a_deadline_that_is_missed_leaves_the_state_as_it_was(framework: Framework, path: Path) -> None:
    with framework.load(path) as model, model.bind() as binding:
        binding.inputs["x"][...] = 1
        assert binding.run().direct
        with pytest.raises(HalError, match="deadline"):
            binding.run(now_ns() - 1)
        assert binding.run().direct
        assert binding.outputs["y"][0] == 12


def test_a_run_outside_of_a_binding_is_refused(framework: Framework, path: Path) -> None:
    with framework.load(path) as model, pytest.raises(ValueError, match=r"carries 'sum' from run to run.*bind it"):
        model.run({"x": np.ones(3, np.float32)})


def test_inputs_and_outputs_become_state_as_the_client_says(framework: Framework, tmp_path: Path) -> None:
    file = tmp_path / "total.onnx"
    file.write_bytes(running_total((1, "n")))
    states, dimensions = {"before": "after"}, {"before": (1, 4), "x": (1, 4)}
    with framework.load(file, states=states, dimensions=dimensions) as model, model.bind() as binding:
        binding.inputs["x"][...] = 2
        for expected in (2, 4, 6):
            binding.run()
            assert binding.outputs["y"].tolist() == [[expected] * 4]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"gone": "after"}, "a state has the input 'gone'"),
        ({"before": "gone"}, "a state has the output 'gone'"),
        ({"before": "y", "x": "after"}, "all outputs are states"),
    ],
)
def test_states_that_are_none_are_refused(
    framework: Framework, tmp_path: Path, states: dict[str, str], message: str
) -> None:
    file = tmp_path / "total.onnx"
    file.write_bytes(running_total())
    with pytest.raises(HalError, match=message):
        framework.load(file, states=states)


def test_only_a_model_with_a_state_can_reset_it(framework: Framework, tmp_path: Path) -> None:
    file = tmp_path / "total.onnx"
    file.write_bytes(running_total())
    with (
        framework.load(file) as model,
        model.bind() as binding,
        pytest.raises(HalError, match="the model has no state"),
    ):
        binding.reset_state()


@pytest.mark.slow
def test_a_state_that_died_with_its_device_is_missed_once(path: Path, tmp_path: Path) -> None:
    with (
        Testbed(DEFAULT_TOPOLOGY, tmp_path / "bed", zygote=WARM) as bed,
        connect(bed.framework) as framework,
        framework.load(path, devices=["cpu_acc", "cpu_ref"]) as model,
        model.bind() as binding,
    ):
        binding.inputs["x"][...] = 1
        for _ in range(3):
            assert binding.run().direct
        os.kill(bed.pid("cpu_acc"), signal.SIGKILL)
        with pytest.raises(HalError, match="state of the model was lost with cpu_acc; the next run begins with"):
            binding.run()

        def runs() -> bool:
            try:
                binding.run()
            except HalError as error:
                assert "lost" not in error.message
                return False
            return True

        wait_until(runs, "the device is back")
        assert binding.outputs["y"][0] == 11


def test_state_for_asyncio(testbed: Testbed, path: Path) -> None:
    async def main() -> list[float]:
        async with connect_async(testbed.framework) as server:
            assert isinstance(server, AsyncFramework)
            model = await server.load(path)
            async with await model.bind() as binding:
                binding.inputs["x"][...] = 1
                found = []
                for _ in range(2):
                    assert (await binding.run()).direct
                    found.append(float(binding.outputs["y"][0]))
                await binding.reset_state()
                await binding.run()
                return [*found, float(binding.outputs["y"][0])]

    assert asyncio.run(main()) == [11, 12, 11]


def test_the_command_runs_a_model_once(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    done = nnhal("run", str(path), "--input", str(tmp_path / "x.npy"), "--json")
    assert json.loads(done.stdout)["outputs"]["y"] == [11, 21, 31]
