"""A program of NeuralNetworks.h over a device that misbehaves: each fault, and the result code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.faults import FaultControl
from nnhal_native.ndk import Compilation, Execution, NeuralNetworksError
from nnhal_tools.up import Testbed
from tests.native.ndk.support import WAYS, framework_at, named
from tests.support.fault_outcomes import NDK_ROWS, RIGHT, UNMET, WRONG
from tests.support.models import floor_model
from tests.system.test_fault_table import (
    DEVICE,
    TOKEN,
    framework,  # noqa: F401
    healthy,  # noqa: F401
    testbed,  # noqa: F401
)

pytestmark = pytest.mark.sdk


@pytest.fixture(scope="module", autouse=True)
def found(testbed: Testbed) -> Iterator[None]:  # noqa: F811
    with framework_at(testbed.framework):
        yield


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
