"""``--paint-outputs``: what a device leaves of outputs is found, and nothing is found that it has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_tools.cases.case import Case, ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from nnhal_tools.cases.vectors import parse_vector
from nnhal_tools.paint import unwritten_outputs
from tests.support.foreign_system import ELEMENTS, WIRED, ForeignSystem, doubling_on, foreign_system

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples/vectors.jsonl"
INPUTS = {"input0": np.full(ELEMENTS, 3, np.float32)}


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref, WIRED) as started:
        yield started


@pytest.fixture(autouse=True)
def behaving(system: ForeignSystem) -> Iterator[None]:
    """Devices do nothing wrong after a test."""
    yield
    system.behave()


def vectors() -> list[Case]:
    return [parse_vector(json.loads(line)) for line in EXAMPLES.read_text().splitlines()]


@pytest.mark.parametrize("names", [WIRED[:1], WIRED], ids=["one step", "a wired chain"])
def test_a_run_finds_outputs_that_no_device_has_written(system: ForeignSystem, names: tuple[str, ...]) -> None:
    with system.connect() as framework:
        model = doubling_on(framework, *names)
        assert unwritten_outputs(model, INPUTS) == {}
        system.devices[names[-1]].fail("writes nothing")
        left = unwritten_outputs(model, INPUTS)
        assert {name: tuple(found) for name, found in left.items()} == {"output0": (16, 16, 0)}


def test_conformance_finds_outputs_that_a_device_has_not_written(system: ForeignSystem) -> None:
    device = system.devices[WIRED[0]]
    (relu,) = (vector for vector in vectors() if vector.name == "relu_float")
    with RemoteDevice(device.endpoint, "test") as remote:
        runner = CaseRunner(remote, [(ExecutionMode.BURST, MemoryChoice.ASHMEM)], paints=True)
        (right,) = runner.run(relu)
        assert right.verdict == Verdict.PASSED, right.reason
        device.fail("writes nothing")
        (wrong,) = runner.run(relu)
    assert (wrong.verdict, wrong.failure) == (Verdict.FAILED, "unwritten")
    assert wrong.reason == "output 0: 16 of 16 bytes were not written, the first at offset 0"


def test_a_device_that_writes_everything_passes_in_every_mode_over_every_memory(cpu_ref: Endpoint) -> None:
    ways = [(mode, memory) for mode in ExecutionMode for memory in MemoryChoice]
    with RemoteDevice(cpu_ref, "test") as remote:
        runner = CaseRunner(remote, ways, paints=True)
        results = [result for vector in vectors() for result in runner.run(vector)]
    assert {result.verdict for result in results} == {Verdict.PASSED}
