"""Outcomes that the oracle accepts, and its reports."""

from __future__ import annotations

from typing import NoReturn

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_hosting.rpc import DEFECT
from nnhal_tools.stress.outcomes import ANY, FAILURE, INVALID, OK, Violation, ask


def refuse(status: ErrorStatus, message: str = "no") -> NoReturn:
    raise HalError(status, message)


def test_what_is_allowed_passes() -> None:
    assert ask(lambda: 7).value == 7
    assert ask(lambda: None).value is None
    assert ask(lambda: refuse(ErrorStatus.INVALID_ARGUMENT), INVALID).status == ErrorStatus.INVALID_ARGUMENT
    assert not ask(lambda: refuse(ErrorStatus.GENERAL_FAILURE), OK | FAILURE)


def test_another_status_is_a_violation_that_says_what_was_allowed() -> None:
    with pytest.raises(Violation, match=r"GENERAL_FAILURE: no; allowed: INVALID_ARGUMENT"):
        ask(lambda: refuse(ErrorStatus.GENERAL_FAILURE), INVALID)


def test_success_is_a_violation_where_a_call_must_be_refused() -> None:
    with pytest.raises(Violation, match="NONE; allowed: INVALID_ARGUMENT"):
        ask(lambda: 7, INVALID)


def test_there_may_be_no_more_of_what_a_call_takes() -> None:
    exhausted = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert ask(lambda: refuse(exhausted)).status == exhausted
    with pytest.raises(Violation, match="RESOURCE_EXHAUSTED_TRANSIENT"):
        ask(lambda: refuse(exhausted), takes=False)


def test_a_failure_that_stands_for_a_defect_is_never_allowed() -> None:
    with pytest.raises(Violation, match="the device has a defect"):
        ask(lambda: refuse(ErrorStatus.GENERAL_FAILURE, DEFECT), ANY)
