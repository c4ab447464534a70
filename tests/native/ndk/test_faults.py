"""A program of NeuralNetworks.h over a device that misbehaves: each fault, and the result code.

The table of docs/faults.md is what these tests expect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.faults import FaultControl
from nnhal.types import ErrorStatus
from nnhal_native.ndk import Compilation, Execution, NeuralNetworksError
from nnhal_tools.up import Testbed
from tests.native.ndk.support import WAYS, framework_at, named
from tests.support.models import floor_model
from tests.system.test_fault_table import (
    DEVICE,
    DOCS,
    RIGHT,
    TOKEN,
    UNMET,
    WRONG,
    framework,  # noqa: F401
    healthy,  # noqa: F401
    testbed,  # noqa: F401
)

pytestmark = pytest.mark.sdk


@pytest.fixture(scope="module", autouse=True)
def found(testbed: Testbed) -> Iterator[None]:  # noqa: F811
    with framework_at(testbed.framework):
        yield


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


def _compiled(token: bytes) -> Compilation:
    compilation = Compilation(floor_model(), named(DEVICE))
    if token:
        compilation.set_caching(token)
    return compilation


def _ndk_outcome(compilation: Compilation, way: str, control: FaultControl, has_deadline: bool) -> str:
    """Compute, and say how that has ended."""
    result = np.zeros(1, np.float32)
    try:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_input(0, np.array([3.7], np.float32))
            execution.set_output(0, result)
            if has_deadline:
                execution.set_timeout(2_000_000_000)
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
def test_a_client_of_the_library_meets_a_fault(healthy: Endpoint, name: str, way: str) -> None:  # noqa: F811
    row = NDK_ROWS[name]
    token = TOKEN if row.fault["what"] == "damaged_cache" else b""
    with _compiled(token) as first:
        first.finish()
    with FaultControl(healthy) as control, _compiled(token) as compilation:
        control.set(row.fault)
        before = control.injected()
        expected = row.fenced if way == "fenced" else row.unfenced
        ended = _ndk_outcome(compilation, way, control, "with a deadline" in name)
        assert ended == (RIGHT if expected == UNMET else expected)
        if row.fault["what"] != "death":
            assert (control.injected() == before) == (expected == UNMET)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_compute_of_the_library_meets_an_error(healthy: Endpoint, way: str) -> None:  # noqa: F811
    with FaultControl(healthy) as control, _compiled(b"") as compilation:
        control.set({"what": "error", "status": "RESOURCE_EXHAUSTED_TRANSIENT"})
        assert _ndk_outcome(compilation, way, control, False) == "RESOURCE_EXHAUSTED_TRANSIENT"


def test_the_table_of_the_documentation_is_this() -> None:
    found = re.findall(r"^\| .* \|$", DOCS.read_text(), re.MULTILINE)
    lines = [f"| {name} | {row.unfenced} | {row.fenced} |" for name, row in NDK_ROWS.items()]
    assert [line for line in lines if line not in found] == []
