"""Conformance vectors of unsigned 8-bit values, and their signed counterparts. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_tools.cases.case import Case, ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.coupling import has_signed_counterpart, signed_counterpart

pytestmark = NEEDS_VECTORS


@pytest.fixture(scope="module")
def vectors() -> list[Case]:
    """Return the smallest vector for each form of each operation that also takes signed values."""
    return list(smallest_by_form(has_signed_counterpart).values())


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def runner(request: pytest.FixtureRequest) -> Iterator[CaseRunner]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as device:
        yield CaseRunner(device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)])


@pytest.mark.contract("EX-16")
def test_signed_and_unsigned_tests_both_pass_or_are_both_declined(runner: CaseRunner, vectors: list[Case]) -> None:
    passed = 0
    for vector in vectors:
        (unsigned,), (signed,) = runner.run(vector), runner.run(signed_counterpart(vector))
        both = f"{vector.name}: {unsigned.verdict} {unsigned.reason}; signed: {signed.verdict} {signed.reason}"
        assert unsigned.verdict == signed.verdict != Verdict.FAILED, both
        passed += unsigned.verdict == Verdict.PASSED
    assert passed > 30
