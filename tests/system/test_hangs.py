"""Devices that hang while requests wait for them: they are killed or given up, and every answer is right."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Binding, connect
from tests.support.front_door import Devices, Served, front_door
from tests.support.front_workers import Connection
from tests.support.held_device import NAME, HeldDevice, held_device
from tests.support.operated import Beside
from tests.support.processes import device_process
from tests.support.repositories import numbers, onnx_file, write
from tests.support.waiting import stop, wait_until

pytestmark = pytest.mark.slow
SHAPE = (1, 8)
CONFIG = f'parameters {{ key: "nnhal.placement" value {{ string_value: "name:node={NAME}" }} }}'


@dataclass(frozen=True)
class Held:
    """A framework whose model runs on a device that a test holds, with cpu_ref to fall back on."""

    device: HeldDevice
    pid: int
    served: Served
    model: Path

    def infer(self) -> None:
        """Run the model over the protocol, and check the answer."""
        connection = Connection(self.served.http)
        try:
            status, answer = connection.infer()
        finally:
            connection.close()
        assert status == 200, answer
        np.testing.assert_allclose(answer["outputs"][0]["data"], np.tanh(numbers())[0], atol=1e-6)


@pytest.fixture(params=["1", "2"], ids=["the framework serves", "front workers serve"])
def held(request: pytest.FixtureRequest, short_path: Path, tmp_path: Path) -> Iterator[Held]:
    repository = tmp_path / "repository"
    folder = write(repository, "tanh", {"1/model.onnx": onnx_file(shape=SHAPE), "config.pbtxt": CONFIG})
    with held_device(short_path) as device, device_process("cpu_ref", short_path) as (child, reference):
        with RemoteDevice(device.endpoint) as remote:
            pid = remote.pid
        over = Devices({NAME: device.endpoint, "cpu_ref": reference}, {NAME: pid, "cpu_ref": child.pid})
        with front_door(over, repository, "--front-workers", request.param) as served:
            yield Held(device, pid, served, folder / "1" / "model.onnx")


def test_a_device_that_was_stopped_is_fallen_back_from_and_used_again_when_it_continues(held: Held) -> None:
    first = Beside(held.infer)
    held.device.next().let_go()
    first.result()
    second = Beside(held.infer)
    execution = held.device.next()
    stop(held.pid)
    second.result()
    for _ in range(3):
        held.infer()
    os.kill(held.pid, signal.SIGCONT)
    execution.let_go()
    held.device.hold_no_more()
    wait_until(lambda: is_used(held), "the device is used again")


def is_used(held: Held) -> bool:
    """Whether a request that is right runs on the device."""
    with RemoteDevice(held.device.endpoint) as remote:
        before = remote.usage().executions_ended
        held.infer()
        return remote.usage().executions_ended > before


def test_what_a_device_that_was_stopped_writes_when_it_continues_is_in_no_answer(held: Held) -> None:
    with connect(held.served.endpoint.directory) as framework:
        binding = framework.load(held.model, pins={"name:*": NAME}).bind()
        first = Beside(binding.run)
        held.device.next().let_go()
        first.result()
        second = Beside(binding.run)
        execution = held.device.next()
        stop(held.pid)
        with pytest.raises(HalError) as caught:
            second.result()
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        other = framework.load(held.model).bind()
        other.inputs["x"][:] = numbers()
        other.run()
        np.testing.assert_allclose(other.outputs["y"], np.tanh(numbers()), atol=1e-6)
        os.kill(held.pid, signal.SIGCONT)
        execution.let_go()
        held.device.hold_no_more()
        wait_until(lambda: is_ready(binding), "the binding can be used again")
        binding.inputs["x"][:] = numbers()
        binding.run()
        np.testing.assert_allclose(binding.outputs["y"], np.tanh(numbers()), atol=1e-6)


def is_ready(binding: Binding) -> bool:
    """Whether a binding runs, and not into memory that a device may still write to."""
    try:
        binding.run()
    except HalError as error:
        assert error.status == ErrorStatus.DEVICE_UNAVAILABLE
        return False
    return True
