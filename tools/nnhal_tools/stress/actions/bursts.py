"""Bursts, over their channel and over gRPC, with tokens for memory."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionResult, Request
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.faults import NO_INSTANT, Fault, draw_deadline, spoil_request
from nnhal_tools.stress.objects import HeldBurst
from nnhal_tools.stress.outcomes import INVALID, REFUSED, ask, require
from nnhal_tools.stress.plan import RequestPlan

_PLANS = 2


def execute(actor: Actor) -> ErrorStatus:
    """Execute a request with new inputs, mostly one that the burst has seen before."""
    burst, deadline = actor.some(actor.bursts, actor.burst), draw_deadline(actor.random)
    plan = _plan(actor, burst)
    plan.refill(actor.random)
    return actor.perform(plan, _execution(actor, burst, plan, deadline.ns), deadline)


def execute_invalid(actor: Actor) -> ErrorStatus:
    """Execute a faulty request, or one with faulty tokens."""
    burst, deadline = actor.some(actor.bursts, actor.burst), draw_deadline(actor.random)
    plan = actor.plan(burst.prepared)
    pools = len(plan.request.pools)
    if actor.perhaps(0.3):
        tokens = actor.random.choice(([], [-1] * (pools + 1), [-2] * pools, [0] * (pools - 1) + [-(1 << 63)]))
        actor.note(f"{plan}, tokens {tokens}")
        call = burst.wire.execute if actor.perhaps(0.3) else burst.remote.execute
        return ask(lambda: call(plan.request, tokens, plan.config, deadline.ns), INVALID).status
    fault = spoil_request(plan, actor.random)
    without = [-1] * len(fault.request.pools)
    return actor.perform(
        plan, lambda request: burst.remote.execute(request, without, plan.config, deadline.ns).result, deadline, fault
    )


def execute_in_truncated_file(actor: Actor) -> ErrorStatus:
    """Execute a request after one of its files was truncated, perhaps after the burst has seen it."""
    burst = actor.some(actor.bursts, actor.burst)
    plan = _plan(actor, burst)
    if not plan.truncate(actor.random):
        return execute(actor)
    call = _execution(actor, burst, plan, NO_DEADLINE)
    burst.drop(plan)
    return actor.perform(plan, call, NO_INSTANT, Fault("truncated", plan.request, REFUSED))


def run_foreign(actor: Actor) -> ErrorStatus:
    """Execute a reusable execution of another prepared model than the burst's."""
    burst = actor.some(actor.bursts, actor.burst)
    execution = actor.some_execution()
    if execution.plan.prepared is burst.prepared:
        return execute(actor)
    actor.note(execution.plan)
    return ask(lambda: burst.remote.run(execution.remote), INVALID).status


def release_memory(actor: Actor) -> ErrorStatus:
    """Release a token that the burst knows, or one that it does not know."""
    burst = actor.some(actor.bursts, actor.burst)
    token = actor.random.choice((*burst.tokens.values(), -1, 12345, 1 << 62))
    if not burst.named and token >= 0:
        token += 1 << 30  # the tokens that the remote burst gives are its own
    actor.note(token)
    call = burst.wire.release_memory_resource if actor.perhaps(0.3) else burst.remote.release_memory_resource
    ask(lambda: call(token), takes=False)
    return ErrorStatus.NONE


def release_invalid_memory(actor: Actor) -> ErrorStatus:
    """Release a token below -1."""
    burst = actor.some(actor.bursts, actor.burst)
    call = burst.wire.release_memory_resource if actor.perhaps(0.3) else burst.remote.release_memory_resource
    return ask(lambda: call(actor.random.choice((-2, -(1 << 63)))), INVALID).status


def open_burst(actor: Actor) -> ErrorStatus:
    burst = actor.burst()
    require(burst.remote.handle > 0, f"burst {burst.remote.handle}")
    return ErrorStatus.NONE


def _plan(actor: Actor, burst: HeldBurst) -> RequestPlan:
    """A request of a burst: one of those that it keeps, unless a launch uses the same buffers."""
    usable = [
        plan for plan in burst.plans if not any(buffer.users or buffer.released for buffer in plan.buffers.values())
    ]
    if usable and actor.perhaps(0.8):
        return actor.random.choice(usable)
    plan = actor.plan(burst.prepared)
    burst.plans.append(plan)
    if len(burst.plans) > _PLANS:
        burst.drop(burst.plans[0])
    return plan


def _execution(
    actor: Actor, burst: HeldBurst, plan: RequestPlan, deadline_ns: int
) -> Callable[[Request], ExecutionResult]:
    """One of the ways to execute a request with a burst."""
    if not burst.named:
        return lambda request: burst.remote.execute(request, None, plan.config, deadline_ns).result
    tokens = burst.tokens_of(plan)
    if actor.perhaps(0.3):
        call = burst.wire.execute if actor.perhaps(0.5) else burst.wire.execute_plain
        return lambda request: call(request, tokens, plan.config, deadline_ns)
    return lambda request: burst.remote.execute(request, tokens, plan.config, deadline_ns).result
