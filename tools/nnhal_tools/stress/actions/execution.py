"""Executing requests synchronously, in every way."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionResult, Request
from nnhal_tools.stress import wire
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.faults import NO_INSTANT, Fault, draw_deadline, spoil_config, spoil_request
from nnhal_tools.stress.launches import HeldLaunch
from nnhal_tools.stress.objects import HeldExecution
from nnhal_tools.stress.outcomes import FAILURE, INVALID, REFUSED, ask
from nnhal_tools.stress.plan import RequestPlan


def execute(actor: Actor) -> ErrorStatus:
    """Execute a valid request, perhaps with an output that is too small."""
    plan, deadline = actor.plan(actor.some_prepared(), tiny=actor.perhaps(0.3)), draw_deadline(actor.random)
    return actor.perform(plan, _execution(actor, plan, deadline.ns), deadline)


def execute_invalid(actor: Actor) -> ErrorStatus:
    """Execute a faulty request."""
    plan, deadline = actor.plan(actor.some_prepared()), draw_deadline(actor.random)
    if actor.perhaps(0.1):
        config = spoil_config(plan.config, actor.random)
        actor.note(f"{plan}, {config}")
        return ask(lambda: plan.prepared.remote.execute(plan.request, config), INVALID).status
    fault = spoil_request(plan, actor.random)
    return actor.perform(plan, _execution(actor, plan, deadline.ns), deadline, fault)


def execute_in_truncated_file(actor: Actor) -> ErrorStatus:
    """Execute a request after one of its files was truncated."""
    plan = actor.plan(actor.some_prepared())
    if not plan.truncate(actor.random):
        return execute(actor)
    return actor.perform(
        plan, _execution(actor, plan, NO_DEADLINE), NO_INSTANT, Fault("truncated", plan.request, REFUSED)
    )


def execute_again(actor: Actor) -> ErrorStatus:
    """Execute a reusable execution with new inputs, over gRPC or a burst of its prepared model."""
    execution, deadline = actor.some_execution(), draw_deadline(actor.random)
    plan, remote = execution.plan, execution.remote
    if execution.launch is not None and not execution.launch.settled:
        return _execute_busy(actor, execution, execution.launch)
    bursts = [burst for burst in actor.bursts if burst.prepared is plan.prepared]
    plan.refill(actor.random)
    if bursts and actor.perhaps(0.6):
        burst = actor.random.choice(bursts).remote
        return actor.perform(plan, lambda _: burst.run(remote, deadline.ns).result, deadline)
    return actor.perform(plan, lambda _: remote.execute(deadline.ns), deadline)


def create_invalid_execution(actor: Actor) -> ErrorStatus:
    """Create a reusable execution of a faulty request. The fault may be reported by its execution instead."""
    plan = actor.plan(actor.some_prepared())
    fault = spoil_request(plan, actor.random)
    actor.note(f"{plan}, {fault.name}")
    prepared = plan.prepared.remote
    answer = ask(
        lambda: prepared.create_reusable_execution(fault.request, plan.config), fault.allowed | {ErrorStatus.NONE}
    )
    if not answer:
        return answer.status
    execution = answer.value
    refused = ask(execution.execute, fault.allowed)
    execution.release()
    plan.conclude(refused.status, ran=False)
    return refused.status


def _execution(actor: Actor, plan: RequestPlan, deadline_ns: int) -> Callable[[Request], ExecutionResult]:
    """One of the ways to execute a request with a prepared model."""
    prepared = plan.prepared.remote
    if actor.perhaps(0.3):
        return lambda request: wire.execute(prepared, request, plan.config, deadline_ns)
    return lambda request: prepared.execute(request, plan.config, deadline_ns)


def _execute_busy(actor: Actor, execution: HeldExecution, launch: HeldLaunch) -> ErrorStatus:
    """Execute a reusable execution while a launch of it is under way."""
    plan = execution.plan
    certain = launch.is_held
    actor.note(f"{plan}, {'busy' if certain else 'perhaps busy'}")
    plan.look()
    answer = ask(execution.remote.execute, FAILURE if certain else plan.expected() | FAILURE)
    if answer:
        plan.conclude(answer.status, ran=False)
    return answer.status
