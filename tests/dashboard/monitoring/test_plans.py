"""The plans of models, and what is kept of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_client.explanation import Explanation
from nnhal_dashboard.monitoring.plans import PlanBook, PlanSubject
from tests.support.explanations import chain, explained, explanation_to_wire
from tests.support.waiting import SECONDS, wait_until

NET = PlanSubject("net")


class ToldFramework:
    """In place of the framework: explains what a test says."""

    def __init__(self, plan: Explanation) -> None:
        self.plan = plan

    def explain(self, target: wire.PlanTarget) -> wire.ExplainTargetResponse:
        """Explain the plan of any model."""
        return wire.ExplainTargetResponse(
            explanation=explanation_to_wire(self.plan), missing=["fpga"], prepared_models=[4]
        )

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def book_of(framework: ToldFramework) -> PlanBook:
    return PlanBook(lambda: cast(FrameworkAdmin, framework))


def test_a_plan_is_what_the_framework_explains() -> None:
    plan = explained(chain(3))
    running = book_of(ToldFramework(plan)).running(NET)
    assert running.plan.explanation == plan
    assert (running.missing, running.prepared_models) == (("fpga",), (4,))


def test_the_same_plan_is_kept_once() -> None:
    book = book_of(ToldFramework(explained(chain(3))))
    assert book.running(NET).plan is book.running(NET).plan
    assert len(book.earlier(NET)) == 1


def test_models_of_sessions_that_are_over_are_forgotten_though_all_ran_by_one_plan() -> None:
    book = book_of(ToldFramework(explained(chain(3))))
    for session in range(200):
        book.running(PlanSubject("net", session=str(session)))
    kept = [session for session in range(200) if book.earlier(PlanSubject("net", session=str(session)))]
    assert kept == list(range(136, 200))


def test_the_last_plans_of_each_model_are_kept_the_newest_first() -> None:
    framework = ToldFramework(explained(chain(1)))
    book = book_of(framework)
    for count in range(1, 12):
        framework.plan = explained(chain(count))
        book.running(NET)
    assert [len(each.plan.explanation.operations) for each in book.earlier(NET)] == [11, 10, 9, 8, 7, 6, 5, 4]


def test_the_plans_that_were_asked_for_longest_ago_are_forgotten() -> None:
    framework = ToldFramework(explained(chain(1)))
    book = book_of(framework)
    book.running(PlanSubject("first"))
    assert book.earlier(PlanSubject("first"))
    for count in range(2, 70):
        framework.plan = explained(chain(count))
        book.running(PlanSubject(f"model {count}"))
    assert not book.earlier(PlanSubject("first"))
    assert sum(len(book.earlier(PlanSubject(f"model {count}"))) for count in range(2, 70)) == 64


class SlowFramework:
    """In place of a framework that plans when it may."""

    def __init__(self, answer: framework_pb2.ModelExplanation) -> None:
        self.may = threading.Event()
        self.at_once: list[int] = []
        self._answer = answer
        self._running = 0

    def plan(self, *_: object) -> framework_pb2.ModelExplanation:
        """Plan any model."""
        self._running += 1
        self.at_once.append(self._running)
        self.may.wait(SECONDS)
        self._running -= 1
        return self._answer


def test_plans_are_tried_one_at_a_time_and_not_for_all_who_ask() -> None:
    framework = SlowFramework(explanation_to_wire(explained(chain(3))))
    book = PlanBook(lambda: cast(FrameworkAdmin, framework))
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(book.sketched, NET, ()) for _ in range(16)]
        wait_until(lambda: sum(each.done() for each in asked) == 12, "those beyond four are refused")
        framework.may.set()
        errors = [error for each in asked if (error := each.exception(20)) is not None]
    assert len(errors) == 12
    assert all("are being tried already" in str(error) for error in errors)
    assert framework.at_once == [1] * 4
    assert book.sketched(NET, ()).explanation == explained(chain(3))
