"""Weights in other files and in the client's memory pass as descriptors; nobody needs the files afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.memory import create_read_only
from nnhal.types import Ashmem
from nnhal_client import Framework, Model
from nnhal_tools.up import DeviceEntry
from tests.support.external_data import LOCATION, SIDE, contents, elsewhere, expected, opened, written
from tests.support.onnx_models import onnx_model
from tests.support.testbeds import framework_over
from tests.support.waiting import wait_until

X = np.random.default_rng(9).standard_normal((1, SIDE), np.float32)
ROWS, WIDTH = 9_000_000, 64


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    with framework_over(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")) as session:
        yield session


def run(model: Model, name: str, values: Array) -> Array:
    with model.bind() as binding:
        binding.inputs[name][:] = values
        binding.run()
        return np.array(binding.outputs["y"])


@pytest.mark.parametrize("device", ["cpu_acc", "cpu_ref"])
def test_the_files_beside_a_model_are_loaded_with_it(framework: Framework, tmp_path: Path, device: str) -> None:
    with framework.load(written(tmp_path), devices=[device]) as model:
        os.truncate(tmp_path / LOCATION, 0)
        np.testing.assert_allclose(run(model, "x", X), expected(X), rtol=1e-4, atol=1e-3)


def test_weights_in_memory_take_the_place_of_a_file(framework: Framework, tmp_path: Path) -> None:
    path, values = written(tmp_path), np.frombuffer(contents(), np.uint8)
    (tmp_path / LOCATION).unlink()
    memory = create_read_only([(0, values)], len(values))
    with framework.load(path, weights={LOCATION: memory}) as model:
        np.testing.assert_allclose(run(model, "x", X), expected(X), rtol=1e-4, atol=1e-3)


def held_files(pid: int) -> list[str]:
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed by now
            found.append(str(path.readlink()))
    return found


def test_a_device_that_takes_the_file_reads_the_weights_itself(framework: Framework, tmp_path: Path) -> None:
    (device,) = [each.pid for each in framework.devices() if each.name == "cpu_acc"]
    file = str(tmp_path / LOCATION)
    with framework.load(written(tmp_path), devices=["cpu_acc"]):
        names = held_files(framework.calls.peer_pid)
        assert file in names
        assert not any("nnhal-weights" in name for name in names)  # a copy
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other")

    def is_closed() -> bool:
        framework.load(other, devices=["cpu_acc"]).close()  # what is gone is dropped with the next call
        return not any(file in held_files(pid) for pid in (framework.calls.peer_pid, device))

    wait_until(is_closed, "the file is closed")


@pytest.mark.parametrize("device", ["cpu_acc", "cpu_ref"])
@pytest.mark.parametrize(
    ("kind", "message"), [("write-only", "cannot be read: Bad file descriptor"), ("pipe", "no regular file")]
)
def test_what_cannot_be_read_is_refused(
    framework: Framework, tmp_path: Path, kind: str, message: str, device: str
) -> None:
    path = written(tmp_path)
    if kind == "pipe":
        os.mkfifo(tmp_path / "pipe")
        given = opened(tmp_path / "pipe", os.O_RDWR)
    else:
        given = opened(tmp_path / LOCATION, os.O_WRONLY)
    with pytest.raises(HalError, match=message):
        framework.load(path, devices=[device], weights={LOCATION: Ashmem(given, len(contents()))})


def test_its_operations_are_told_when_they_are_asked_for(framework: Framework, tmp_path: Path) -> None:
    """One device takes the file as it is, and the weights by reference."""
    with framework.load(written(tmp_path)) as model:
        wanted = model.placements
        assert {placement.device for placement in wanted} == {"cpu_acc"}
        assert len(wanted) > 1
    with framework.load(written(tmp_path), pins={"op:FULLY_CONNECTED": "cpu_acc"}) as model:
        assert model.placements == wanted


def test_a_model_whose_weights_are_not_there_is_refused(framework: Framework, tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / LOCATION).write_bytes(b"too short")
    with pytest.raises(HalError, match=r"in 'weights\.bin', which has 9 bytes"):
        framework.load(path)
    (tmp_path / LOCATION).unlink()
    with pytest.raises(HalError, match=r"lie in another file, 'weights\.bin', which did not come with the model"):
        framework.load(path)


def test_weights_of_more_than_two_gibibytes_are_loaded(framework: Framework, tmp_path: Path) -> None:
    """The file is a hole but for a row, and cpu_ref reads it in place."""
    table = elsewhere("table", np.broadcast_to(np.float32(0), (ROWS, WIDTH)), 0)
    model = onnx_model(
        [helper.make_node("Gather", ["table", "rows"], ["y"])], {"rows": [2]}, ["y"], element_type=np.int32
    )
    model.graph.initializer.append(table)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    last = np.arange(WIDTH, dtype=np.float32)
    with (tmp_path / LOCATION).open("wb") as file:
        file.seek((ROWS - 1) * last.nbytes)
        file.write(last.tobytes())
    with framework.load(path, devices=["cpu_ref"]) as loaded:
        found = run(loaded, "rows", np.array([ROWS - 1, 0], np.int32))
    np.testing.assert_array_equal(found, [last, np.zeros(WIDTH, np.float32)])


def test_a_file_that_has_changed_is_not_read_again(tmp_path: Path) -> None:
    with framework_over(DeviceEntry(driver="cpu_acc")) as alone, alone.load(written(tmp_path)) as model:
        before = alone.devices()[0].pid
        (tmp_path / LOCATION).write_bytes(bytes(len(contents())))
        os.utime(tmp_path / LOCATION, ns=(0, 0))  # however coarse the clock of the file system is
        np.testing.assert_allclose(run(model, "x", X), expected(X), rtol=1e-4, atol=1e-3)
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: alone.devices()[0].pid not in (0, before), "the device is there again")
        with pytest.raises(HalError, match=r"'weights\.bin' with values of the model has changed"):
            run(model, "x", X)


def test_a_plan_may_be_of_a_model_with_other_files(framework: Framework, tmp_path: Path) -> None:
    plan = framework.plan(written(tmp_path), leaves_nodes=True)
    assert [list(group.nodes) for group in plan.groups] == [[0, 1, 2]]
    with framework.load(plan=plan) as model:
        np.testing.assert_allclose(run(model, "x", X), expected(X), rtol=1e-4, atol=1e-3)
