"""A client who takes all that he can get: another one's modest use goes on, and begins, through the same framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal_client import connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.waiting import wait_until

MEBIBYTE = 1 << 20
CLIENT = """
import json, sys
import numpy as np
from nnhal.errors import NnhalError
from nnhal.fence import create_fence
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import connect

framework, path = sys.argv[1:]
session = connect(framework)
model = session.load(path, devices=["cpu_acc"], fallback="deny")
kept = []

def binding():
    kept.append(model.bind(dimensions={"x": (1 + len(kept), 4096)}))
    kept[-1].run()

def binding_through_the_framework():
    kept.append(model.bind(dimensions={"x": (1, 4096)}, direct=False))
    kept[-1].run()

def fenced_run():
    signal, fence = create_fence()
    kept.append((signal, model.bind(dimensions={"x": (1, 4096)}, direct=False)))
    waited = session.calls.issue(fence.descriptor)
    launch = wire.LaunchRunRequest(
        binding=kept[-1][1]._handle, wait_for_descriptor_ids=[waited], deadline_ns=-1, duration_ns=-1
    )
    kept.append((fence, session.calls.call(session.stub.LaunchRun, launch)))

def loaded_model():
    kept.append(session.load(path, devices=["cpu_acc"], fallback="deny"))

def memory():
    kept.append(session.allocate([model.input_role("x")], dimensions=(256, 4096)))

def chain():
    kept.append(session.load(path, pins={"name:second": "cpu_ref"}, fallback="deny"))
    kept.append(kept[-1].bind(dimensions={"x": (1, 4096)}))
    kept[-1].run()

for line in sys.stdin:
    most, *names = line.split()
    said = {}
    for name in names:
        made = 0
        try:
            while made < int(most):
                globals()[name]()
                made += 1
        except NnhalError as error:
            said[name] = (made, str(error))
        else:
            said[name] = (made, "")
    print(json.dumps(said), flush=True)
"""
KINDS = ("memory", "loaded_model", "chain", "fenced_run", "binding", "binding_through_the_framework")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Run two devices and a framework that have little for their clients."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_DEVICE_MAX_DESCRIPTORS", "400")
        patch.setenv("NNHAL_SERVICE_MAX_DESCRIPTORS", "1000")
        patch.setenv("NNHAL_DEVICE_BUFFER_BYTES", str(100 * MEBIBYTE))
        patch.setenv("NNHAL_DEVICE_MODEL_BYTES", str(40 * MEBIBYTE))
        with Testbed(DEFAULT_TOPOLOGY, tmp_path_factory.mktemp("bed"), zygote=WARM) as bed:
            with connect(bed.framework) as client:
                wait_until(lambda: all(device.available for device in client.devices()), "both devices are there")
            yield bed


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model of two operations with 64 KiB of constants."""
    nodes = [helper.make_node("Add", ["x", "c"], ["z"], "first"), helper.make_node("Tanh", ["z"], ["y"], "second")]
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    constants = {"c": np.ones((1, 4096), np.float32)}
    path.write_bytes(onnx_model(nodes, {"x": ["n", 4096]}, ["y"], constants).SerializeToString())
    return path


class Client:
    """A process that makes things at a framework, and holds them until it ends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def make(self, most: int, *kinds: str) -> dict[str, tuple[int, str]]:
        """Have it make so many of each kind, or until it is refused; return how many it made, and the refusals."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join([str(most), *kinds]) + "\n")
        self._process.stdin.flush()
        return {kind: (made, refusal) for kind, (made, refusal) in json.loads(self._process.stdout.readline()).items()}


@contextmanager
def client(bed: Testbed, model: Path) -> Iterator[Client]:
    command = [sys.executable, "-c", CLIENT, str(bed.framework), str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Client(process)
        finally:
            process.communicate()


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1]], ids=["memory first", "bindings first"])
def test_what_one_client_hoards_is_missing_to_nobody_else(bed: Testbed, model: Path, kinds: tuple[str, ...]) -> None:
    plain = dict.fromkeys(kinds, (1, ""))
    with ExitStack() as clients:
        first, greedy = (clients.enter_context(client(bed, model)) for _ in range(2))
        assert first.make(1, *kinds) == plain
        hoarded = greedy.make(2000, *kinds)
        print(hoarded)
        for _, refusal in hoarded.values():
            assert f"(pid {greedy.pid}, uid {os.getuid()}) holds " in refusal
            assert "NNHAL_" in refusal or "fenced executions" in refusal
        second = clients.enter_context(client(bed, model))
        assert second.make(1, *kinds) == plain
        assert first.make(1, *kinds) == plain
