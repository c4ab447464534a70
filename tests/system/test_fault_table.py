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
from onnx import TensorProto, helper

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.remote.faults import FaultControl
from nnhal.types import ErrorStatus
from nnhal_client import Framework, connect
from nnhal_client.ndk import Compilation, Execution, NeuralNetworksError
from nnhal_hosting.faults.document import Fault
from nnhal_hosting.trace import Trace
from nnhal_tools.trace import add_run
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.ndk import WAYS, floor_model, named
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
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy")
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], name="square"),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("Add", ["b", "x"], ["y"], name="sum"),
    ]
    path = tmp_path_factory.mktemp("models") / "three.onnx"
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
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
    """How a run has ended."""

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


def test_the_tables_of_the_documentation_are_these() -> None:
    found = re.findall(r"^\| .* \|$", DOCS.read_text(), re.MULTILINE)
    lines = [f"| {name} | {row.alone} | {row.wired} | {row.fences} |" for name, row in ROWS.items()]
    lines += [f"| {name} | {row.unfenced} | {row.fenced} |" for name, row in NDK_ROWS.items()]
    assert [line for line in lines if line not in found] == []


def test_the_tables_have_every_kind_of_fault() -> None:
    kinds = get_args(get_args(Fault)[0])
    every = {word for kind in kinds for word in get_args(kind.model_fields["what"].annotation)}
    for rows in (ROWS, NDK_ROWS):
        assert {row.fault["what"] for row in rows.values()} | ELSEWHERE == every


class NdkRow(NamedTuple):
    """A fault, and what a client of the NDK's API gets that has named this device only: a result code, or values."""

    fault: dict[str, Any]
    unfenced: str
    fenced: str


def _ndk(unfenced: str, fenced: str = "", **fault: Any) -> NdkRow:
    return NdkRow(fault, unfenced, fenced or unfenced)


CODES = {
    "DEVICE_UNAVAILABLE": "UNAVAILABLE_DEVICE",
    "GENERAL_FAILURE": "OP_FAILED",
    "INVALID_ARGUMENT": "BAD_DATA",
}
"""The codes of statuses that have another name in the NDK."""
LATE_CODE = "MISSED_DEADLINE_TRANSIENT"
NDK_ROWS = {
    **{
        f"error {status.name}": _ndk(CODES.get(status.name, status.name), what="error", status=status.name)
        for status in ErrorStatus
        if status is not ErrorStatus.NONE
    },
    "delay": _ndk(RIGHT, what="delay", ms=5),
    "slow clock": _ndk(RIGHT, what="slow_clock", factor=3),
    "death in an execution": _ndk("UNAVAILABLE_DEVICE", what="death"),
    "error of a preparation": _ndk("OP_FAILED", what="error", method="prepare"),
    "a hang, with a deadline": _ndk(LATE_CODE, what="hang"),
    "a fence fails": _ndk(UNMET, "UNAVAILABLE_DEVICE", what="fence"),
    "a fence never signals, with a deadline": _ndk(UNMET, LATE_CODE, what="fence", outcome="never"),
    "an answer is dropped, with a deadline": _ndk(LATE_CODE, UNMET, what="answer"),
    "an answer is late": _ndk(RIGHT, UNMET, what="answer", outcome="late", ms=5),
    "wrong dimensions": _ndk("OP_FAILED", UNMET, what="shapes"),
    "wrong count of outputs": _ndk("OP_FAILED", UNMET, what="shapes", wrong="count"),
    "NaN": _ndk(WRONG, what="values", how="nan"),
    "NaN in a layer": _ndk(WRONG, what="values", how="nan", layer="FLOOR"),
    "memory is refused": _ndk("OP_FAILED", what="memory"),
    "support is withdrawn": _ndk("BAD_DATA", what="withdrawn"),
    "the compilation cache is damaged": _ndk(RIGHT, what="damaged_cache"),
}


def _compiled(framework: Framework, token: bytes) -> Compilation:
    compilation = Compilation(framework, floor_model(), named(framework, DEVICE))
    if token:
        compilation.set_caching(token)
    return compilation


def _ndk_outcome(compilation: Compilation, way: str, control: FaultControl, has_deadline: bool) -> str:
    result = np.zeros(1, np.float32)
    try:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_input(0, np.array([3.7], np.float32))
            execution.set_output(0, result)
            if has_deadline:
                execution.set_timeout(300_000_000)
            try:
                WAYS[way](execution, compilation)
            finally:
                if has_deadline:
                    control.clear()
    except NeuralNetworksError as error:
        return error.code.name
    return RIGHT if result == 3 else WRONG


@pytest.mark.parametrize("way", ["burst", "fenced"])
@pytest.mark.parametrize("name", NDK_ROWS)
def test_a_client_of_the_ndk_meets_a_fault(framework: Framework, healthy: Endpoint, name: str, way: str) -> None:
    row = NDK_ROWS[name]
    token = TOKEN if row.fault["what"] == "damaged_cache" else b""
    with _compiled(framework, token) as first:
        first.finish()
    with FaultControl(healthy) as control, _compiled(framework, token) as compilation:
        control.set(row.fault)
        before = control.injected()
        expected = row.fenced if way == "fenced" else row.unfenced
        ended = _ndk_outcome(compilation, way, control, "with a deadline" in name)
        assert ended == (RIGHT if expected == UNMET else expected)
        if row.fault["what"] != "death":
            assert (control.injected() == before) == (expected == UNMET)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_compute_of_the_ndk_meets_an_error(framework: Framework, healthy: Endpoint, way: str) -> None:
    with FaultControl(healthy) as control, _compiled(framework, b"") as compilation:
        control.set({"what": "error", "status": "RESOURCE_EXHAUSTED_TRANSIENT"})
        assert _ndk_outcome(compilation, way, control, False) == "RESOURCE_EXHAUSTED_TRANSIENT"
