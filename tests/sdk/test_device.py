"""The device in C++: its arithmetic, its place in a testbed, and what its supervisor and its operators ask."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal_client import Model, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.sdk.foreign import DeviceProgram, running
from tests.support.additions import addition_of_unknown_size
from tests.support.command import nnhal
from tests.support.foreign_system import ELEMENTS, doubling_on
from tests.support.processes import WARM
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(900)]  # the first one builds the SDK

INPUT = np.arange(ELEMENTS, dtype=np.float32)
VECTORS = os.environ.get("NNHAL_CONFORMANCE", "")
KILLS = 4


@pytest.mark.skipif(not VECTORS, reason="NNHAL_CONFORMANCE names no folder of vectors")
@pytest.mark.parametrize("mode", ["sync", "burst", "reusable", "fenced"])
def test_its_operations_compute_as_the_vectors_say(foreign: Endpoint, mode: str) -> None:
    chosen = [
        "--filter",
        "^(add|mul|relu|fully_connected)",
        "--mode",
        mode,
        "--memory",
        "ashmem",
        "--memory",
        "mmap_fd",
    ]
    done = nnhal("conformance", "--device", str(foreign.directory), *chosen, VECTORS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 72 passed, 0 failed, " in done.stdout, done.stdout


def test_it_passes_the_kit(foreign: Endpoint) -> None:
    done = nnhal("check", str(foreign.directory))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_reason_is_given_for_what_it_does_not_take(foreign: Endpoint) -> None:
    with RemoteDevice(foreign, "test") as device:
        (answer,) = device.assess_model(addition_of_unknown_size()).operations
        assert (answer.code, answer.allowed) == ("DYN_SHAPE", "known dimensions")
        with pytest.raises(HalError, match="not supported by device_cpp: DYN_SHAPE"):
            device.prepare_model(addition_of_unknown_size())


def test_it_shows_signs_of_life_and_ends_with_its_supervisor(device_cpp: DeviceProgram, short_path: Path) -> None:
    with running(device_cpp, short_path) as device:
        assert device.supervision.recv(1) == b"W"
        device.supervision.close()
        assert device.process.wait(20) == 0
        assert not device.endpoint.link.exists()


@pytest.fixture(scope="module")
def bed(device_cpp: DeviceProgram) -> Iterator[Testbed]:
    """Two devices in C++, which a supervisor starts by their command, and cpu_ref."""
    command = (str(device_cpp.path), "--endpoint", "{endpoint}")
    devices = [DeviceEntry(driver="foreign", name=name, command=command) for name in ("first", "second")]
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        testbed = Testbed(Topology(device=(*devices, DeviceEntry(driver="cpu_ref"))), Path(directory), zygote=WARM)
        with controlled(testbed):
            yield testbed


def run(model: Model) -> None:
    (output,) = model.run({model.inputs[0].name: INPUT}).values()
    np.testing.assert_array_equal(output, 8 * INPUT)


def test_it_is_a_stage_of_wired_chains_with_others(bed: Testbed) -> None:
    with connect(bed.framework) as framework, doubling_on(framework, "first", "cpu_ref", "second").bind() as binding:
        for number in range(5):
            binding.inputs["input0"][...] = number
            binding.outputs["output0"][...] = np.nan
            report = binding.run()
            assert binding.outputs["output0"].tolist() == [8 * number] * ELEMENTS
            assert (report.direct, report.fell_back) == (True, False)


def test_operators_see_it(bed: Testbed) -> None:
    done = nnhal("ps", "--directory", str(bed.directory))
    assert done.returncode == 0, done.stderr
    assert "no admin service" not in done.stdout


def test_no_run_is_lost_if_it_is_killed_under_load(bed: Testbed) -> None:
    over = threading.Event()
    lost: list[Exception] = []
    runs = [0, 0]

    def load(number: int) -> None:
        try:
            with connect(bed.framework) as framework:
                model = doubling_on(framework, "first", "second", "cpu_ref")
                while not over.is_set():
                    run(model)
                    runs[number] += 1
        except Exception as error:
            lost.append(error)

    clients = [threading.Thread(target=load, args=(number,)) for number in range(len(runs))]
    for client in clients:
        client.start()
    try:
        for name in ["first", "second"] * (KILLS // 2):
            before = list(runs)
            wait_until(
                lambda before=before: bool(lost) or all(now > then + 5 for now, then in zip(runs, before, strict=True)),  # type: ignore[misc]
                "runs succeed",
            )
            killed = bed.pid(name)
            assert nnhal("kill", name, "--directory", str(bed.directory)).returncode == 0
            wait_until(lambda name=name, killed=killed: bed.pid(name) not in (0, killed), f"{name} is back")  # type: ignore[misc]
    finally:
        over.set()
        for client in clients:
            client.join()
    assert lost == []
