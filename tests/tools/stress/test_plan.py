"""Expectations of a plan for an execution, and the violations that it finds."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from nnhal.types import ErrorStatus, ExecutionResult, OutputShape
from nnhal_tools.stress.buffers import HeldBuffer, PreparedSpecimen
from nnhal_tools.stress.outcomes import ANY, FAILURE, INVALID, MISSED, OK, Violation
from nnhal_tools.stress.plan import RequestPlan
from nnhal_tools.stress.specimens import Specimen, create_specimens

SUCCESS = ExecutionResult()
OUTPUT = 2


def specimen(name: str) -> Specimen:
    return next(one for one in create_specimens(Random(1)) if one.name == name)


def prepared(name: str = "add") -> PreparedSpecimen:
    return PreparedSpecimen(specimen(name), cast(Any, None))


def buffer(*roles: tuple[PreparedSpecimen, int]) -> HeldBuffer:
    held, position = roles[0]
    operand = held.specimen.operand(position)
    return HeldBuffer(cast(Any, SimpleNamespace(token=5)), operand.type, operand.dimensions, dict.fromkeys(roles))


def compute(plan: RequestPlan) -> None:
    """Write the output as a device would."""
    slot = plan.slots[len(plan.specimen.inputs)]
    assert plan.sample.expected is not None
    plan.blocks[slot.block].write(slot.offset, plan.sample.expected.reshape(-1).view(np.uint8))


def plans(name: str = "add") -> list[RequestPlan]:
    """Plans in memory of every kind, divided in every way."""
    return [RequestPlan(prepared(name), Random(seed)) for seed in range(20)]


def test_the_right_result_passes() -> None:
    for plan in plans():
        compute(plan)
        plan.verify(SUCCESS)


def test_an_output_that_was_not_written_is_found() -> None:
    for plan in plans():
        with pytest.raises(Violation, match="wrong output"):
            plan.verify(SUCCESS)


def test_a_byte_that_was_changed_elsewhere_is_found() -> None:
    for plan in plans():
        compute(plan)
        slot = plan.slots[0]
        plan.blocks[slot.block].write(slot.offset, np.array([1, 2, 3, 4], np.uint8))
        with pytest.raises(Violation, match="4 bytes from byte"):
            plan.verify(SUCCESS)
        with pytest.raises(Violation, match="were changed"):
            plan.verify_untouched()


def test_what_is_said_of_outputs_must_be_right() -> None:
    for plan in plans("add of open size"):
        compute(plan)
        dimensions = plan.specimen.dimensions(OUTPUT, plan.size)
        plan.verify(ExecutionResult(True, (OutputShape(dimensions),)))
        with pytest.raises(Violation, match="output shape"):
            plan.verify(ExecutionResult(True, (OutputShape((plan.size + 1, 8)),)))
        with pytest.raises(Violation, match="of this size"):
            plan.verify(ExecutionResult(False, (OutputShape(dimensions, is_sufficient=False),)))


def test_values_decide_how_an_execution_must_end() -> None:
    random = Random(3)
    ends = {frozenset(RequestPlan(prepared("lookup"), random).expected()) for _ in range(40)}
    assert ends == {OK, FAILURE}
    ends = {frozenset(RequestPlan(prepared("loop"), random).expected()) for _ in range(40)}
    assert ends == {OK, MISSED}


def test_a_buffer_must_be_filled_before_it_is_read_and_lose_its_content_when_a_write_fails() -> None:
    held = prepared()
    shared = buffer((held, 0), (held, OUTPUT))
    reading, writing = (RequestPlan(held, Random(1), {position: shared}) for position in (0, OUTPUT))
    assert reading.expected() == FAILURE
    assert writing.expected() == OK
    writing.conclude(ErrorStatus.NONE, ran=True)
    reading.look()
    assert reading.expected() == OK
    expected = writing.sample.expected
    assert expected is not None
    assert reading.sample.inputs[0] is expected
    writing.conclude(ErrorStatus.GENERAL_FAILURE, ran=True)
    assert reading.expected() == FAILURE


def test_what_was_refused_leaves_a_buffer_in_doubt_and_a_race_makes_it_wild() -> None:
    held = prepared()
    shared = buffer((held, 0), (held, OUTPUT))
    reading, writing = (RequestPlan(held, Random(1), {position: shared}) for position in (0, OUTPUT))
    writing.conclude(ErrorStatus.NONE, ran=True)
    writing.conclude(ErrorStatus.MISSED_DEADLINE_TRANSIENT, ran=False)
    assert reading.expected() == OK | FAILURE
    reading.begin()
    writing.conclude(ErrorStatus.NONE, ran=True)
    reading.end(ErrorStatus.NONE)
    assert reading.expected() == ANY


def test_a_buffer_without_the_role_or_in_two_places_is_invalid() -> None:
    held = prepared()
    assert RequestPlan(held, Random(1), {1: buffer((held, 0))}).expected() == INVALID
    assert RequestPlan(held, Random(1), {0: buffer((prepared(), 0))}).expected() == INVALID
    both = buffer((held, 0), (held, OUTPUT))
    assert RequestPlan(held, Random(1), {0: both, OUTPUT: both}).expected() >= INVALID


def test_a_result_that_does_not_fit_its_buffer_is_invalid_if_the_request_says_so_and_else_a_failure() -> None:
    held = prepared("add of open size")
    for stated, expected in ((False, FAILURE), (True, INVALID)):
        source, fixed = buffer((held, 0)), buffer((held, OUTPUT))
        fixed.dimensions = (4, 7)
        source.became(np.ones((1, 7), np.float32))
        drawn = (RequestPlan(held, Random(seed), {0: source, OUTPUT: fixed}, stated=stated) for seed in range(30))
        plan = next(plan for plan in drawn if plan.size == 1 and plan.states_output == stated)
        assert plan.expected() == expected
        source.wild = True  # it may turn out to be uninitialised, or of another size
        assert plan.expected() >= INVALID | FAILURE
