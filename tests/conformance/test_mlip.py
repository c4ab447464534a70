"""Conformance vectors on mlip, in float16 and in symmetric 8-bit numbers. NNHAL_CONFORMANCE has the vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, product

import pytest

from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal_tools.cases.case import Case, ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.coupling import has_signed_counterpart, signed_counterpart
from tests.support.mlip_hal import is_taken
from tests.support.processes import own_device

pytestmark = NEEDS_VECTORS


def is_taken_whole(vector: Case) -> bool:
    return is_taken(ResolvedModel(vector.model, inline_constants(vector.model)))


@contextmanager
def mlip(*options: str) -> Iterator[RemoteDevice]:
    """Open a session with a device that looks at every byte that it reads."""
    given = [text for option in ("checked=true", *options) for text in ("--option", option)]
    with (
        own_device("mlip", *given) as (_, endpoint),
        RemoteDevice(endpoint, "test") as session,
    ):
        yield session


@pytest.fixture(scope="module")
def device() -> Iterator[RemoteDevice]:
    with mlip() as session:
        yield session


def test_supported_vectors_pass_in_all_modes_over_all_memories(device: RemoteDevice) -> None:
    """Each vector in one mode over one kind of memory: both are the host's, whatever the driver."""
    runners = cycle([CaseRunner(device, [way]) for way in product(ExecutionMode, MemoryChoice)])
    taken = smallest_by_form(is_taken_whole).values()
    results = [result for vector, runner in zip(taken, runners, strict=False) for result in runner.run(vector)]
    assert [result for result in results if result.verdict != Verdict.PASSED] == []
    assert len(results) > 20


@pytest.mark.parametrize("option", ["wb_pin_ocm=true", "tiles=1"])
def test_supported_vectors_pass_with_pinned_weights_and_on_one_tile(option: str) -> None:
    with mlip(option) as session:
        runner = CaseRunner(session, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)])
        results = [result for vector in smallest_by_form(is_taken_whole).values() for result in runner.run(vector)]
    assert {result.verdict for result in results} == {Verdict.PASSED}


@pytest.mark.contract("EX-16")
def test_unsigned_and_signed_values_are_both_right_or_both_declined(device: RemoteDevice) -> None:
    runner, passed = CaseRunner(device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)]), 0
    taken = smallest_by_form(lambda vector: has_signed_counterpart(vector) and is_taken_whole(vector))
    for vector in (*taken.values(), *smallest_by_form(has_signed_counterpart).values()):
        (unsigned,), (signed,) = runner.run(vector), runner.run(signed_counterpart(vector))
        both = f"{vector.name}: {unsigned.verdict} {unsigned.reason}; signed: {signed.verdict} {signed.reason}"
        assert unsigned.verdict == signed.verdict != Verdict.FAILED, both
        passed += unsigned.verdict == Verdict.PASSED
    assert passed > 2
