"""What a model, a binding, a launch and a sequence cost in descriptors, in each process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http
from onnx import helper

from nnhal.fence import create_fence
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Framework, Model, connect
from tests.reference.limits import DESCRIPTORS
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import write
from tests.support.tritonclients import Triton
from tests.support.waiting import settled

COUNT = 8
STATE = """max_batch_size: 4 sequence_batching {
  direct {} max_sequence_idle_microseconds: 600000000
  state { input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: 2 }
}"""


@dataclass
class Rig:
    """A client of a framework, and what it keeps."""

    served: Served
    device: int
    client: Framework
    triton: Triton
    path: Path
    kept: list[object] = field(default_factory=list)

    def open(self) -> tuple[int, int, int]:
        """Count the descriptors of the framework, of the device and of this process."""
        framework, device, own = (
            sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()) for pid in (self.served.pid, self.device, os.getpid())
        )
        return framework, device, own

    def load(self) -> Model:
        return self.client.load(self.path, devices=["cpu_acc"], fallback="deny")


@pytest.fixture(scope="module")
def rig(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("repository")
    nodes = [helper.make_node("Add", ["x", "before"], ["after"]), helper.make_node("Identity", ["after"], ["y"])]
    shapes = {"x": ["n", 2], "before": ["n", 2]}
    stateful = onnx_model(nodes, shapes, ["y", "after"]).SerializeToString()
    write(folder, "stateful", {"1/model.onnx": stateful, "config.pbtxt": STATE})
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    constants = {"c": np.ones((1, 1 << 14), np.float32)}
    nodes = [helper.make_node("Add", ["x", "c"], ["z"], "first"), helper.make_node("Tanh", ["z"], ["y"], "second")]
    path.write_bytes(onnx_model(nodes, {"x": [1, 1 << 14]}, ["y"], constants).SerializeToString())
    with (
        model_server(device_processes, folder) as served,
        connect(served.endpoint.directory) as client,
        Triton("http", tritonclient.http, served.http) as triton,
    ):
        yield Rig(served, device_processes.pids["cpu_acc"], client, triton, path)


def model(rig: Rig, model: Model) -> None:
    """a model with constants"""
    rig.kept.append(rig.load())


def direct(rig: Rig, model: Model) -> None:
    """a binding that runs directly, with its run channel"""
    binding = model.bind()
    assert binding.run().direct
    rig.kept.append(binding)


def burst(rig: Rig, model: Model) -> None:
    """a binding that runs through the framework, with its burst"""
    binding = model.bind(direct=False)
    binding.run()
    rig.kept.append(binding)


def fence(rig: Rig, model: Model) -> None:
    """such a binding with a launched run that waits for a fence"""
    binding = model.bind(direct=False)
    signal, awaited = create_fence()
    number = rig.client.calls.issue(awaited.descriptor)
    request = wire.LaunchRunRequest(
        binding=binding._handle, wait_for_descriptor_ids=[number], deadline_ns=-1, duration_ns=-1
    )
    launched = rig.client.calls.call(rig.client.stub.LaunchRun, request)
    rig.kept += [binding, signal, awaited, rig.client.calls.take(launched.fence_descriptor_id)]


def chain(rig: Rig, model: Model) -> None:
    """a binding of two steps on two devices, which runs directly"""
    if not rig.kept:
        rig.kept.insert(
            0, rig.client.load(rig.path, pins={"name:first": "cpu_acc", "name:second": "cpu_ref"}, fallback="deny")
        )
    binding = rig.kept[0].bind()  # type: ignore[attr-defined]
    assert binding.run().direct
    rig.kept.append(binding)


def sequence(rig: Rig, model: Model) -> None:
    """a sequence of a model with one state, after two requests"""
    rig.kept.append(len(rig.kept) + 1)
    for start in (True, False):
        values = {"x": np.ones((1, 2), np.float32)}
        rig.triton.infer("stateful", values, sequence_id=len(rig.kept), sequence_start=start)


KINDS: tuple[Callable[[Rig, Model], None], ...] = (model, direct, burst, fence, chain, sequence)


@pytest.mark.parametrize("make", KINDS)
def test_things_cost_as_many_descriptors_as_the_page_says(rig: Rig, make: Callable[[Rig, Model], None]) -> None:
    rig.kept.clear()
    bound = rig.load()
    for _ in range(2):  # what the test before has dropped is closed with what is put next
        settled(rig.open)
        make(rig, bound)
    before = settled(rig.open)
    for _ in range(COUNT):
        make(rig, bound)
    after = settled(rig.open)
    assert (
        tuple((now - then) / COUNT for now, then in zip(after, before, strict=True)) == DESCRIPTORS[make.__doc__ or ""]
    )


def test_the_page_says_it_of_each_of_them() -> None:
    assert set(DESCRIPTORS) == {make.__doc__ for make in KINDS}
