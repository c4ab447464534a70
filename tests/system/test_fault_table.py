"""The framework over a device that misbehaves: each fault, in each way of running a plan, and how the run ends."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.remote.faults import FaultControl
from nnhal_client import Framework, connect
from nnhal_hosting.faults.document import Fault
from nnhal_hosting.trace import Trace
from nnhal_tools.trace import add_run
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.fault_outcomes import FAILS, FALLS_BACK, FRAMEWORK_ROWS, LATE, RIGHT, UNMET, WRONG
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
DEVICE = "cpu_acc"
X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 64)
Y = np.tanh(X * X) + X
PLANS = {
    "alone": {"index:0-2": DEVICE},
    "wired": {"name:square": "cpu_ref", "name:tanh": DEVICE, "name:sum": "cpu_ref"},
    "fences": {"name:square": "gpu_acc", "name:tanh": DEVICE, "name:sum": "gpu_acc"},
}
"""A plan of one step, a wired chain, and one that is chained by fences; the device has the only, or the second step."""
ELSEWHERE = {"shrunk_sram"}
"""Kinds of faults that tests/system/test_shrunk_sram.py has."""
TOKEN = bytes(range(32))


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Devices that take faults, and a framework that caches."""
    names = ("gpu_acc", DEVICE, "cpu_ref")
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in names))
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNHAL_SERVICE_CACHE_DIRECTORY", f"{directory}/cache")
        with Testbed(topology, Path(directory), faults=FaultOptions(allowed=True), zygote=WARM) as bed:
            yield bed


@pytest.fixture(scope="module")
def framework(testbed: Testbed) -> Iterator[Framework]:
    with connect(testbed.framework) as session:
        yield session


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three nodes: x * x, its tanh, and that plus x."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], name="square"),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("Add", ["b", "x"], ["y"], name="sum"),
    ]
    path = tmp_path_factory.mktemp("models") / "three.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 64]}, ["y"]), path)
    return path


@pytest.fixture
def healthy(testbed: Testbed, framework: Framework) -> Iterator[Endpoint]:
    """The device, which serves, is used, and has no faults, before a test and after it."""
    endpoint = Endpoint(testbed.directory / DEVICE)

    def is_used() -> bool:
        return next(device.available for device in framework.devices() if device.name == DEVICE)

    wait_until(is_used, "the framework uses the device")
    yield endpoint
    wait_until(lambda: _cleared(endpoint), "the device has no faults")


def _cleared(endpoint: Endpoint) -> bool:
    try:
        with FaultControl(endpoint) as control:
            control.clear()
    except (NnhalError, OSError):
        return False
    return True


class Ending(NamedTuple):
    """End of a run."""

    outcome: str
    ledger: tuple[str, ...] = ()
    """What the ledger says of injected faults; nothing if the run failed."""
    timeline: str = ""
    """The timeline, as JSON; empty if the run failed."""


def ending(
    framework: Framework, file: Path, plan: str, has_deadline: bool, control: FaultControl, token: bytes = b""
) -> Ending:
    """Load the model, run it, and say how that has ended. What hangs then goes on, since closing waits for it."""
    try:
        model = framework.load(file, pins=PLANS[plan], cache_token=token)
        with model.bind(measure_timing=True) as binding:
            binding.fill({"x": X})
            deadline = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 300_000_000 if has_deadline else -1
            try:
                report = binding.run(deadline_ns=deadline)
            finally:
                if has_deadline:
                    control.clear()
            values = binding.outputs["y"].copy()
    except HalError as error:
        return Ending(LATE if error.status.name.startswith(LATE) else FAILS)
    timeline = Trace()
    add_run(timeline, report, model.placements, "model")
    injected = tuple(entry.reason for entry in report.ledger if entry.strategy == "Injected")
    right = FALLS_BACK if report.fell_back else RIGHT
    return Ending(right if np.allclose(values, Y, atol=1e-5) else WRONG, injected, json.dumps(timeline.as_dict()))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", FRAMEWORK_ROWS)
def test_the_framework_survives_a_fault(
    framework: Framework, healthy: Endpoint, file: Path, name: str, plan: str
) -> None:
    row = FRAMEWORK_ROWS[name]
    token = TOKEN if row.fault["what"] == "damaged_cache" else b""
    if token:
        framework.load(file, pins=PLANS[plan], cache_token=token).unload()
    with FaultControl(healthy) as control:
        control.set({**row.fault, "name": "it", "times": 100})
        expected = getattr(row, plan)
        before = control.injected()
        ended = ending(framework, file, plan, "with a deadline" in name, control, token)
        assert ended.outcome == (RIGHT if expected == UNMET else expected)
        if row.fault["what"] == "death":  # nobody is left to tell
            return
        assert (control.injected() == before) == (expected == UNMET)
        is_told = expected in (RIGHT, FALLS_BACK, WRONG) and not token  # the cache is read when a model is loaded
        named = f"{DEVICE} had the injected fault 'it' in step {int(plan != 'alone')}"
        assert any(named in entry for entry in ended.ledger) == is_told
        assert len(ended.ledger) == 1 or not is_told or expected == FALLS_BACK
        assert ("injected fault" in ended.timeline) == is_told


def test_the_table_has_every_kind_of_fault() -> None:
    kinds = get_args(get_args(Fault)[0])
    every = {word for kind in kinds for word in get_args(kind.model_fields["what"].annotation)}
    assert {row.fault["what"] for row in FRAMEWORK_ROWS.values()} | ELSEWHERE == every
