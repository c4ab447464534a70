"""Runs that begin when fences have signalled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.types import ErrorStatus
from nnhal_client import Framework, aio
from nnhal_tools.up import Testbed
from tests.support.models import floor_model
from tests.support.repositories import onnx_file
from tests.testbed.inside import fenced


def test_a_launch_waits_for_one_on_another_device_and_that_for_the_program(
    testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    fenced.main(str(testbed.framework), "cpu_acc", "cpu_ref")
    assert json.loads(capsys.readouterr().out) == {"pending": [True, True], "right": True}


def test_a_fence_that_fails_fails_the_launch_and_the_next_run_is_right(framework: Framework) -> None:
    with framework.load_model(floor_model(), devices=["cpu_ref"], fallback="deny").bind() as binding:
        signal, fence = create_fence()
        launched = binding.launch([fence])
        signal.fail()
        with pytest.raises(HalError) as caught:
            launched.wait()
        assert caught.value.status == ErrorStatus.GENERAL_FAILURE
        with pytest.raises(HalError, match="INVALID_ARGUMENT"):
            binding.launch([fence])
        binding.inputs["input0"][:] = 3.7
        binding.launch().wait()
        assert binding.outputs["output0"] == 3


def test_a_launch_may_be_cancelled(framework: Framework) -> None:
    with framework.load_model(floor_model(), devices=["cpu_ref"]).bind() as binding:
        signal, fence = create_fence()
        launched = binding.launch([fence])
        launched.cancel()
        with pytest.raises(HalError):
            launched.wait()
        signal.send()


def test_a_binding_of_a_range_has_no_launches(framework: Framework, tmp_path: Path) -> None:
    file = tmp_path / "tanh.onnx"
    file.write_bytes(onnx_file())
    with framework.load(file).bind(dimensions={"x": ((1, 4), 8)}) as binding, pytest.raises(ValueError, match="range"):
        binding.inputs["x"][...] = np.zeros((1, 8))
        binding.launch()


def test_launches_of_an_event_loop_wait_for_one_another(testbed: Testbed) -> None:
    async def scenario() -> float:
        async with aio.connect(testbed.framework) as session:
            assert isinstance(session, aio.AsyncFramework)
            model = await session.load_model(floor_model(), devices=["cpu_ref"])
            async with await model.bind() as binding:
                binding.inputs["input0"][:] = 3.7
                signal, fence = create_fence()
                launched = await binding.launch([fence])
                signal.send()
                await launched.wait()
                return float(binding.outputs["output0"][0])

    assert asyncio.run(scenario()) == 3
