"""Values that stay on a device whose memory is elsewhere: a framework, that device and cpu_ref as processes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.remote import RemoteDevice
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal_client import Binding, Framework, connect
from nnhal_client import Model as LoadedModel
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support import distant
from tests.support.far_devices import far_device
from tests.support.processes import WARM
from tests.support.subgraphs import INT32, Program
from tests.support.waiting import wait_for_death, wait_until

F32 = OperandType.TENSOR_FLOAT32
ADD, MUL, TANH = OperationType.ADD, OperationType.MUL, OperationType.TANH
COUNT = 1024
SIZE = 4 * COUNT
CROSSING = 4 * SIZE
"""Bytes that cross in a run: x and x + x, the hyperbolic tangent and the result."""
NPU = "npu"
PINS = {"op:ADD": NPU, "op:MUL": NPU, "op:TANH": "cpu_ref"}


def skipping() -> Model:
    """Return tanh(x + x) + x * x. The square passes from the first step to the last."""
    program, value = Program(), Operand(F32, (COUNT,))
    main = program.graph()
    x, none = main.input(value.dimensions, F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], value)
    square = main.operation(MUL, [x, x, none], value)
    main.returns(main.operation(ADD, [main.operation(TANH, [doubled], value), square, none], value))
    return program.model()


@contextmanager
def backend_file(directory: Path) -> Iterator[DeviceEntry]:
    """Have device processes find a driver whose memory is elsewhere."""
    backends = directory / "backends"
    backends.mkdir()
    shutil.copy(distant.__file__, backends / f"Test_{distant.BACKEND_ID}_backend.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(backends))
        yield DeviceEntry(driver=distant.BACKEND_ID, name=NPU)


@contextmanager
def over_tcp(directory: Path) -> Iterator[DeviceEntry]:
    """Run a device that is used over TCP, as if it were on another host."""
    with far_device(directory) as far:
        yield DeviceEntry(driver="remote", name=NPU, endpoint=f"tcp://{far.address}")


@pytest.fixture(scope="module", params=[backend_file, over_tcp], ids=["a test's driver", "over TCP"])
def bed(request: pytest.FixtureRequest) -> Iterator[Testbed]:
    """Run the device, which is started again when it dies, cpu_ref, and a framework."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name, request.param(Path(name)) as entry:
        topology = Topology(device=(entry, DeviceEntry(driver="cpu_ref")))
        with Testbed(topology, Path(name) / "bed", zygote=WARM) as started:
            yield started


@pytest.fixture
def framework(bed: Testbed) -> Iterator[Framework]:
    """Open a session once both devices are there."""
    with connect(bed.framework) as session:
        wait_until(lambda: all(device.available for device in session.devices()), "both devices are there")
        yield session


@pytest.fixture
def observer(bed: Testbed) -> Iterator[RemoteDevice]:
    with RemoteDevice(bed.endpoint(NPU), "observer") as session:
        yield session


def load(framework: Framework) -> LoadedModel:
    """Load the model: two steps on the device, and one on cpu_ref between them."""
    model = framework.load_model(skipping(), pins=PINS)
    assert tuple(model.steps) == (NPU, "cpu_ref", NPU)
    return model


def run(binding: Binding, factor: float) -> bool:
    """Run with an input, check the output, and return whether the run was direct."""
    x = np.linspace(-factor, factor, COUNT, dtype=np.float32)
    binding.inputs["input0"][...] = x
    binding.outputs["output0"][...] = np.nan
    report = binding.run()
    np.testing.assert_allclose(binding.outputs["output0"], np.tanh(2 * x) + x * x, atol=1e-5)
    return report.direct


def crossing(observer: RemoteDevice, binding: Binding) -> int:
    """Run, and return how many bytes have crossed."""
    before = observer.usage().staged_bytes
    run(binding, 1)
    return observer.usage().staged_bytes - before


def test_the_explanation_says_that_a_value_is_kept(framework: Framework) -> None:
    (kept,) = [edge for edge in load(framework).explain().edges if edge.layer == "Kept"]
    assert (kept.source_step, kept.destination_step, kept.memory, kept.bytes) == (0, 2, "device_buffer", SIZE)
    assert (kept.strategy, kept.copied_bytes) == ("DirectCompatibility", 0)
    assert kept.reason == "both ends are on npu, which keeps it in its own memory"


@pytest.mark.parametrize("measure_timing", [False, True], ids=["direct", "through the framework"])
def test_bindings_run_side_by_side_and_only_what_others_need_crosses(
    framework: Framework, observer: RemoteDevice, measure_timing: bool
) -> None:
    model = load(framework)
    bindings = [model.bind(measure_timing=measure_timing) for _ in range(3)]
    assert observer.usage().buffer_bytes == len(bindings) * SIZE
    before = observer.usage()
    for number, binding in enumerate((*bindings, *reversed(bindings)), 1):
        assert run(binding, number / 2) is not measure_timing
    after = observer.usage()
    assert after.staged_bytes - before.staged_bytes == 2 * len(bindings) * CROSSING
    assert after.buffer_copied_bytes == before.buffer_copied_bytes
    for binding in bindings:
        binding.close()
    wait_until(lambda: observer.usage().buffer_bytes == 0, "the buffers are freed")


def test_bindings_leave_nothing_behind(framework: Framework, observer: RemoteDevice) -> None:
    model = load(framework)
    before = observer.usage()
    for _ in range(20):
        binding = model.bind()
        run(binding, 1)
        binding.close()
    wait_until(lambda: observer.usage().buffers == before.buffers, "the buffers are freed")
    wait_until(lambda: observer.usage().executions == before.executions, "the executions are released")
    model.unload()
    assert observer.usage().buffer_bytes == 0


def test_the_buffers_are_lost_with_the_device_and_allocated_when_it_is_back(bed: Testbed, framework: Framework) -> None:
    binding = load(framework).bind()
    assert run(binding, 1)
    killed = bed.pid(NPU)
    os.kill(killed, signal.SIGKILL)
    wait_for_death(killed)
    for number in range(3):
        run(binding, number)
    wait_until(lambda: bed.pid(NPU) != killed, "the device is started again")
    wait_until(lambda: all(device.available for device in framework.devices()), "the framework has connected to it")
    with RemoteDevice(bed.endpoint(NPU), "observer") as observer:
        wait_until(lambda: crossing(observer, binding) == CROSSING, "its steps are prepared again")
        assert observer.usage().buffer_bytes == SIZE
        binding.close()
        wait_until(lambda: observer.usage().buffer_bytes == 0, "the buffer is freed")
