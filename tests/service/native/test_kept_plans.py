"""Plans that are kept for a session: how many, how long, and what they hold."""

from __future__ import annotations

import os

import pytest

from nnhal.errors import HalError
from nnhal.memory import CopyBudget
from nnhal.types import ErrorStatus
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import Ownership
from nnhal_service.native.kept_plans import MAX_PLANS, KeptPlan, KeptPlans

SECONDS = 300.0


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def session() -> Ownership:
    return Ownership(Session(SessionLimits(descriptors=1, sessions=1), os.getpid(), os.getuid()))


def plan_of(copies: CopyBudget, size: int = 1) -> KeptPlan:
    return KeptPlan((), size, copies)


def refusal(plans: KeptPlans, session: Ownership, handle: int) -> str:
    with pytest.raises(HalError) as caught:
        plans.use(session, handle)
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
    return caught.value.message


def test_a_plan_is_dropped_when_it_was_not_used_for_long_enough(session: Ownership) -> None:
    clock, copies = Clock(), CopyBudget(100, "LIMIT")
    plans = KeptPlans(SECONDS, clock)
    first, second = (plans.keep(session, plan_of(copies)) for _ in range(2))
    clock.now = 200.0
    plans.use(session, first)
    clock.now = SECONDS
    assert plans.drop_unused() == 200.0
    assert refusal(plans, session, second) == (
        f"plan {second} does not exist in this session, was released, or was not used for 300 s"
    )
    assert plans.use(session, first).bytes == 1
    clock.now = 2 * SECONDS
    assert plans.drop_unused() is None
    assert session.all(KeptPlan) == []
    assert copies.held == 0


def test_a_plan_is_of_its_session_alone(session: Ownership) -> None:
    plans, other = KeptPlans(SECONDS), Ownership(session.session)
    handle = plans.keep(session, plan_of(CopyBudget(100, "LIMIT")))
    assert "does not exist in this session" in refusal(plans, other, handle)
    plans.release(other, handle)
    assert plans.use(session, handle)
    plans.release(session, handle)
    plans.release(session, handle)
    assert "was released" in refusal(plans, session, handle)


def test_a_session_has_no_more_plans_than_it_may(session: Ownership) -> None:
    plans, copies = KeptPlans(SECONDS), CopyBudget(100, "LIMIT")
    handles = [plans.keep(session, plan_of(copies)) for _ in range(MAX_PLANS)]
    with pytest.raises(
        HalError, match="the session has 64 plans, which is all that it may have: release some"
    ) as caught:
        plans.keep(session, plan_of(copies))
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    plans.release(session, handles[0])
    assert plans.keep(session, plan_of(copies))


def test_the_memory_of_plans_counts_until_they_are_dropped(session: Ownership) -> None:
    plans, copies = KeptPlans(SECONDS), CopyBudget(100, "LIMIT")
    handle = plans.keep(session, plan_of(copies, 60))
    with pytest.raises(HalError, match="a plan that is kept takes 60 bytes; this process holds 60 of the 100"):
        plan_of(copies, 60)
    plans.release(session, handle)
    assert plan_of(copies, 60).bytes == copies.held


def test_the_plans_of_a_session_that_is_over_are_gone(session: Ownership) -> None:
    clock, copies = Clock(), CopyBudget(100, "LIMIT")
    plans = KeptPlans(SECONDS, clock)
    handle = plans.keep(session, plan_of(copies))
    session.session.close()
    assert copies.held == 0
    assert "does not exist" in refusal(plans, session, handle)
    assert plans.drop_unused() is None
