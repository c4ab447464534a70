"""Conformance vectors on the NPUs, which support few of them. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice, product
from typing import NamedTuple

import pytest

from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal_cascade.support import supported_operations as ethos_u
from nnhal_devices.ethos_n.support import supported_operations as ethos_n
from nnhal_mlip.support import supported_operations as mlip
from nnhal_tools.cases.case import Case, ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.coupling import has_signed_counterpart, signed_counterpart
from tests.support.npu import is_taken
from tests.support.processes import own_device

pytestmark = NEEDS_VECTORS
TAKES: dict[str, Callable[[ResolvedModel], bool]] = {
    "ethos_n": partial(is_taken, ask=ethos_n),
    "ethos_u": partial(is_taken, ask=ethos_u),
    "mlip": partial(is_taken, ask=mlip),
}
"""Whether an NPU takes the whole of a model."""


class Npu(NamedTuple):
    """An NPU in a process of its own."""

    name: str
    device: RemoteDevice

    def takes(self, vector: Case) -> bool:
        return TAKES[self.name](ResolvedModel(vector.model, inline_constants(vector.model)))

    def takes_bytes(self, vector: Case) -> bool:
        return has_signed_counterpart(vector) and self.takes(vector)


@contextmanager
def serving(name: str, *options: str) -> Iterator[Npu]:
    """Open a session with an NPU; mlip looks at every byte that it reads."""
    given = ("checked=true", *options) if name == "mlip" else options
    words = [text for option in given for text in ("--option", option)]
    with own_device(name, *words) as (_, endpoint), RemoteDevice(endpoint, "test") as device:
        yield Npu(name, device)


@pytest.fixture(scope="module", params=TAKES)
def npu(request: pytest.FixtureRequest) -> Iterator[Npu]:
    with serving(request.param) as found:
        yield found


@pytest.mark.contract("EX-16")
def test_unsigned_and_signed_values_are_both_right_or_both_declined(npu: Npu) -> None:
    runner, passed = CaseRunner(npu.device, [(ExecutionMode.SYNC, MemoryChoice.HARDWARE_BUFFER_BLOB)]), 0
    taken, any_ = smallest_by_form(npu.takes_bytes), smallest_by_form(has_signed_counterpart)
    for vector in (*taken.values(), *any_.values()):
        (unsigned,), (signed,) = runner.run(vector), runner.run(signed_counterpart(vector))
        both = f"{vector.name}: {unsigned.verdict} {unsigned.reason}; signed: {signed.verdict} {signed.reason}"
        assert unsigned.verdict == signed.verdict != Verdict.FAILED, both
        passed += unsigned.verdict == Verdict.PASSED
    assert passed > (2 if npu.name == "mlip" else 10)


def test_supported_vectors_pass_in_all_modes_over_all_memories(npu: Npu) -> None:
    """Each vector in some modes over some kinds of memory: both are the host's, whatever the driver."""
    ways, each = list(product(ExecutionMode, MemoryChoice)), 1 if npu.name == "mlip" else 3  # mlip is simulated
    turns = cycle(ways)
    runners = (CaseRunner(npu.device, list(islice(turns, each))) for _ in ways)
    taken = smallest_by_form(npu.takes).values()
    results = [result for vector, runner in zip(taken, cycle(runners), strict=False) for result in runner.run(vector)]
    assert [result for result in results if result.verdict != Verdict.PASSED] == []
    assert {(result.mode, result.memory) for result in results} == set(ways)


@pytest.mark.parametrize("option", ["wb_pin_ocm=true", "tiles=1"])
def test_supported_vectors_pass_with_pinned_weights_and_on_one_tile(option: str) -> None:
    with serving("mlip", option) as npu:
        runner = CaseRunner(npu.device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)])
        results = [result for vector in smallest_by_form(npu.takes).values() for result in runner.run(vector)]
    assert {result.verdict for result in results} == {Verdict.PASSED}
