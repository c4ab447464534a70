"""The framework over a device that misbehaves: each fault, in each way of running a plan, and how the run ends.

The table of docs/faults.md is what these tests expect.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.remote.faults import FaultControl
from nnhal.types import ErrorStatus
from nnhal_client import Framework, connect
from nnhal_hosting.faults.document import Fault
from nnhal_hosting.trace import Trace
from nnhal_tools.trace import add_run
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs/faults.md"
DEVICE = "cpu_acc"
X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 64)
Y = np.tanh(X * X) + X
PLANS = {
    "alone": {"index:0-2": DEVICE},
    "wired": {"name:square": "cpu_ref", "name:tanh": DEVICE, "name:sum": "cpu_ref"},
    "fences": {"name:square": "gpu_acc", "name:tanh": DEVICE, "name:sum": "gpu_acc"},
}
"""A plan of one step, a wired chain, and one that is chained by fences; the device has the only, or the second step."""
RIGHT, FALLS_BACK, WRONG, UNMET = "right", "falls back", "wrong values", "not met"
FAILS = "refused at loading"
LATE = "MISSED_DEADLINE"


class Row(NamedTuple):
    """A fault, and how runs of the three plans end."""

    fault: dict[str, Any]
    alone: str
    wired: str
    fences: str


def _row(alone: str, wired: str = "", fences: str = "", **fault: Any) -> Row:
    return Row(fault, alone, wired or alone, fences or wired or alone)


ROWS = {
    **{
        f"error {status.name}": _row(FALLS_BACK, what="error", status=status.name)
        for status in ErrorStatus
        if status is not ErrorStatus.NONE
    },
    "delay": _row(RIGHT, what="delay", ms=5),
    "slow clock": _row(RIGHT, what="slow_clock", factor=3),
    "death in an execution": _row(FALLS_BACK, what="death"),
    "death in a preparation": _row(FAILS, what="death", exit=1, method="prepare"),
    "error of a preparation": _row(FAILS, what="error", method="prepare"),
    "a hang, with a deadline": _row(LATE, what="hang"),
    "a fence fails": _row(UNMET, UNMET, FALLS_BACK, what="fence"),
    "a fence never signals, with a deadline": _row(UNMET, UNMET, LATE, what="fence", outcome="never"),
    "an answer is dropped, with a deadline": _row(LATE, UNMET, UNMET, what="answer"),
    "an answer is late": _row(RIGHT, UNMET, UNMET, what="answer", outcome="late", ms=5),
    "wrong dimensions": _row(FALLS_BACK, UNMET, UNMET, what="shapes"),
    "wrong count of outputs": _row(FALLS_BACK, UNMET, UNMET, what="shapes", wrong="count"),
    "NaN": _row(WRONG, what="values", how="nan"),
    "saturated": _row(WRONG, what="values", how="saturated"),
    "NaN in a layer": _row(WRONG, what="values", how="nan", layer="tanh"),
    "memory is refused": _row(FALLS_BACK, what="memory"),
    "support is withdrawn": _row(FAILS, what="withdrawn"),
    "the compilation cache is damaged": _row(RIGHT, what="damaged_cache"),
}
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
@pytest.mark.parametrize("name", ROWS)
def test_the_framework_survives_a_fault(
    framework: Framework, healthy: Endpoint, file: Path, name: str, plan: str
) -> None:
    row = ROWS[name]
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


def test_the_table_of_the_documentation_is_this() -> None:
    found = re.findall(r"^\| .* \|$", DOCS.read_text(), re.MULTILINE)
    lines = [f"| {name} | {row.alone} | {row.wired} | {row.fences} |" for name, row in ROWS.items()]
    assert [line for line in lines if line not in found] == []


def test_the_table_has_every_kind_of_fault() -> None:
    kinds = get_args(get_args(Fault)[0])
    every = {word for kind in kinds for word in get_args(kind.model_fields["what"].annotation)}
    assert {row.fault["what"] for row in ROWS.values()} | ELSEWHERE == every
