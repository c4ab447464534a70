"""Conformance vectors on the NPUs, which support few of them. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import Support
from nnhal_cascade.support import supported_operations as ethos_u
from nnhal_devices.ethos_n.support import supported_operations as ethos_n
from nnhal_tools.cases.case import Case, ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.coupling import has_signed_counterpart, signed_counterpart
from tests.support.npu import is_taken
from tests.support.processes import own_device

pytestmark = NEEDS_VECTORS


class Npu(NamedTuple):
    """An NPU in a process of its own."""

    device: RemoteDevice
    support: Callable[[ResolvedModel], Sequence[Support]]

    def takes(self, vector: Case) -> bool:
        resolved = ResolvedModel(vector.model, inline_constants(vector.model))
        return has_signed_counterpart(vector) and is_taken(resolved, self.support)


@pytest.fixture(scope="module", params=["ethos_n", "ethos_u"])
def npu(request: pytest.FixtureRequest) -> Iterator[Npu]:
    with (
        own_device(request.param) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        yield Npu(device, {"ethos_n": ethos_n, "ethos_u": ethos_u}[request.param])


@pytest.mark.contract("EX-16")
def test_unsigned_and_signed_values_are_both_right_or_both_declined(npu: Npu) -> None:
    runner, passed = CaseRunner(npu.device, [(ExecutionMode.SYNC, MemoryChoice.HARDWARE_BUFFER_BLOB)]), 0
    taken, any_ = smallest_by_form(npu.takes), smallest_by_form(has_signed_counterpart)
    for vector in (*taken.values(), *any_.values()):
        (unsigned,), (signed,) = runner.run(vector), runner.run(signed_counterpart(vector))
        both = f"{vector.name}: {unsigned.verdict} {unsigned.reason}; signed: {signed.verdict} {signed.reason}"
        assert unsigned.verdict == signed.verdict != Verdict.FAILED, both
        passed += unsigned.verdict == Verdict.PASSED
    assert passed > 10


def test_supported_vectors_pass(npu: Npu) -> None:
    ways = [
        (ExecutionMode.SYNC, MemoryChoice.ASHMEM),
        (ExecutionMode.BURST, MemoryChoice.HARDWARE_BUFFER_BLOB),
        (ExecutionMode.FENCED, MemoryChoice.TOKEN),
    ]
    runner = CaseRunner(npu.device, ways)
    results = [result for vector in smallest_by_form(npu.takes).values() for result in runner.run(vector)]
    assert [result for result in results if result.verdict != Verdict.PASSED] == []
    assert Counter((result.mode, result.memory) for result in results).keys() == set(ways)
    assert len(results) > 10 * len(ways)
