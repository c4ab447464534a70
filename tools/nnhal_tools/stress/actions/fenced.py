"""Fenced executions: chains of launches, the client's fences for which they wait, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nnhal.fence import Fence, FenceState, create_fence
from nnhal.remote import RemoteFencedExecution
from nnhal.types import ErrorStatus, FencedExecutionInfo
from nnhal_tools.stress import wire
from nnhal_tools.stress.actor import MOST, Actor
from nnhal_tools.stress.allocation import new_buffer
from nnhal_tools.stress.faults import Instant, draw_deadline, draw_duration, spoil_request
from nnhal_tools.stress.launches import FenceGate, HeldLaunch
from nnhal_tools.stress.memory import new_file
from nnhal_tools.stress.objects import HeldExecution
from nnhal_tools.stress.outcomes import FAILURE, INVALID, OK, Statuses, ask, require
from nnhal_tools.stress.plan import RequestPlan, open_files

_GATES = 3


class Started(NamedTuple):
    """The result of a launching call."""

    fence: Fence | None
    info: Callable[[], FencedExecutionInfo]
    finish: Callable[[], object]


_Launching = Callable[[Sequence[Fence], int, int], Started]


def launch(actor: Actor) -> ErrorStatus:
    """Launch a valid request in any way, behind gates and earlier launches."""
    if actor.perhaps(0.5):
        plan = actor.plan(actor.some_prepared(), stated=True)
        return _launch(actor, plan, _once(actor, plan)).status
    idle = [held for held in actor.executions if held.launch is None or held.launch.settled]
    execution = actor.some(idle, actor.execution)
    plan = execution.plan
    if any(buffer.users for buffer in plan.buffers.values()):
        return _settle_all(actor)
    plan.refill(actor.random)
    launched = _launch(actor, plan, _reused(actor, execution))
    execution.launch = launched.launch
    return launched.status


def launch_invalid(actor: Actor) -> ErrorStatus:
    """Launch a faulty request, or with faulty deadlines or fences."""
    plan = actor.plan(actor.some_prepared(), stated=True)
    remote, request, config = plan.prepared.remote, plan.request, plan.config
    fault = spoil_request(plan, actor.random)
    while fault.allowed != INVALID:  # such a fault is reported by the execution, not by the launch
        fault = spoil_request(plan, actor.random)
    no_fence = Fence.__new__(Fence)
    no_fence.descriptor = new_file()
    calls: dict[str, Callable[[], RemoteFencedExecution]] = {
        fault.name: lambda: remote.execute_fenced(fault.request, (), config),
        "deadline -2": lambda: remote.execute_fenced(request, (), config, deadline_ns=-2),
        "duration -2": lambda: remote.execute_fenced(request, (), config, duration_ns=-2),
        "a failed fence": lambda: remote.execute_fenced(request, [_failed_fence()], config),
        "a file for a fence": lambda: remote.execute_fenced(request, [no_fence], config),
    }
    name = fault.name if actor.perhaps(0.5) else actor.random.choice(list(calls))
    actor.note(f"{plan}, {name}")
    answer = ask(calls[name], INVALID)
    plan.conclude(answer.status, ran=False)
    return answer.status


def launch_of_open_size(actor: Actor) -> ErrorStatus:
    """Launch a request that leaves the size of the output unknown."""
    (specimen, *_) = (specimen for specimen in actor.specimens if specimen.is_open)
    of_open = [held for held in actor.prepared if held.specimen is specimen]
    prepared = actor.some(of_open, lambda: actor.prepare(specimen))
    if prepared.specimen is not specimen:
        return launch(actor)
    plan = RequestPlan(prepared, actor.random, tiny=True)
    actor.note(plan)
    return ask(lambda: prepared.remote.execute_fenced(plan.request, (), plan.config), INVALID).status


def launch_in_truncated_file(actor: Actor) -> ErrorStatus:
    """Launch a request, one of whose files is truncated before the execution can begin."""
    plan = actor.plan(actor.some_prepared(), stated=True)
    if actor.synchronous or plan.obstacles() or not open_files(plan):
        return launch(actor)
    gate = _gate(actor)
    started = _accept(actor, plan, _once(actor, plan), [gate], [], Instant(), Instant(), OK | plan.doubts())
    if started.launch is None:
        return started.status
    # Holding the launch may have settled an older one behind the same gate; then it has begun.
    if gate.is_open and plan.truncate(actor.random):
        actor.note(f"{plan}, truncated")
        started.launch.allowed = FAILURE | (plan.sample.statuses - OK)
    return actor.settle(started.launch)


def chain(actor: Actor) -> ErrorStatus:
    """Launch two executions at once; the second one reads the device buffer that the first one writes."""
    addition = actor.addition
    prepared = actor.some(
        [held for held in actor.prepared if held.specimen is addition], lambda: actor.prepare(addition)
    )
    if actor.synchronous:
        plan = actor.plan(prepared, stated=True)
        return _launch(actor, plan, _once(actor, plan)).status
    between = [
        buffer
        for buffer in actor.buffers
        if not buffer.users and buffer.has_role(prepared, 0) and buffer.has_role(prepared, 2)
    ]
    buffer = actor.random.choice(between) if between else new_buffer(actor, prepared, (0, 2))
    gate = _gate(actor)
    first = RequestPlan(prepared, actor.random, {2: buffer})
    actor.note(f"{first}, then again")
    started = _accept(actor, first, _once(actor, first), [gate], [], Instant(), Instant(), OK)
    if started.launch is None:
        return started.status
    second = RequestPlan(prepared, actor.random, {0: buffer})
    assert first.sample.expected is not None
    second.sample = second.specimen.evaluate((first.sample.expected, second.sample.inputs[1]))
    then = _accept(actor, second, _once(actor, second), [], [started.launch], Instant(), Instant(), OK, OK)
    well = actor.perhaps(0.8)
    actor.note(f"the gate ends {'well' if well else 'in error'}")
    gate.end(well)
    if then.launch is None:
        return actor.settle(started.launch)
    return actor.settle(then.launch)


def inquire(actor: Actor) -> ErrorStatus:
    """Ask for the result of a launch, perhaps before it is known."""
    if not actor.launches:
        return launch(actor)
    chosen = actor.random.choice(actor.launches)
    actor.note(chosen.plan)
    return ErrorStatus.NONE if chosen.settled else chosen.inquire()


def end_gate(actor: Actor) -> ErrorStatus:
    """Signal a gate, or fail it."""
    gates = [gate for gate in actor.gates if gate.is_open]
    if not gates:
        return launch(actor)
    well = actor.perhaps(0.7)
    actor.note("signals" if well else "fails")
    actor.random.choice(gates).end(well)
    return ErrorStatus.NONE


def settle(actor: Actor) -> ErrorStatus:
    """Settle a launch."""
    if not actor.launches:
        return launch(actor)
    return actor.settle(actor.random.choice(actor.launches))


def reopen_launcher(actor: Actor) -> ErrorStatus:
    """Close the launch channel during launches, and open another one."""
    on_channel = [held.launch for held in actor.executions if held.on_channel and held.launch]
    for pending in on_channel:  # their results are read from the channel
        if not pending.settled:
            actor.settle(pending)
    actor.close_launcher()
    actor.launcher()
    return ErrorStatus.NONE


class _Launched(NamedTuple):
    status: ErrorStatus
    launch: HeldLaunch | None


def _launch(actor: Actor, plan: RequestPlan, call: _Launching) -> _Launched:
    """Launch behind random gates and earlier launches, with random deadlines."""
    plan.look()
    deadline, duration = draw_deadline(actor.random), draw_duration(actor.random)
    gates = [] if actor.synchronous else [_gate(actor) for _ in range(actor.random.choice((0, 0, 1, 2)))]
    waiting = [earlier for earlier in actor.launches if not earlier.settled and earlier.fence is not None]
    earlier = actor.random.sample(waiting, min(len(waiting), actor.random.choice((0, 0, 1, 2))))
    states = [gate.fence.state for gate in gates] + [other.fence.state for other in earlier if other.fence]
    obstacles = plan.obstacles()
    if not plan.states_output and plan.output_buffer is not None:
        obstacles |= INVALID | OK  # the device may take the dimensions from the buffer
    if deadline.invalid or duration.invalid or (not plan.states_output and plan.output_buffer is None):
        at_once = INVALID
    elif FenceState.ERROR in states:
        at_once = INVALID | obstacles | deadline.allowed
    elif actor.synchronous:
        at_once = plan.expected() | deadline.allowed | duration.allowed
    else:
        at_once = (obstacles or OK) | plan.doubts() | deadline.allowed
        if not all(other.fence and other.fence.state is FenceState.SIGNALLED for other in earlier):
            at_once |= INVALID  # one of them may fail in the meantime
    actor.note(f"{plan}, {deadline}, {duration}, {len(gates)} gates, after {[str(other.plan) for other in earlier]}")
    return _accept(actor, plan, call, gates, earlier, deadline, duration, at_once)


def _accept(
    actor: Actor,
    plan: RequestPlan,
    call: _Launching,
    gates: Sequence[FenceGate],
    earlier: Sequence[HeldLaunch],
    deadline: Instant,
    duration: Instant,
    at_once: Statuses,
    later: Statuses | None = None,
) -> _Launched:
    fences = [gate.fence for gate in gates] + [other.fence for other in earlier if other.fence is not None]
    answer = ask(lambda: call(fences, deadline.ns, duration.ns), at_once)
    if not answer:
        plan.conclude(answer.status, ran=False)
        return _Launched(answer.status, None)
    later = plan.expected() if later is None else later
    begun = answer.value
    started = HeldLaunch(plan, begun.fence, begun.info, begun.finish, gates, earlier, deadline, duration, later)
    plan.begin()
    actor.keep(actor.launches, started, MOST["launches"])
    return _Launched(answer.status, started)


def _gate(actor: Actor) -> FenceGate:
    open_gates = [gate for gate in actor.gates if gate.is_open]
    if len(open_gates) >= _GATES:
        return actor.random.choice(open_gates)
    gate = FenceGate(*create_fence())
    actor.gates.append(gate)
    return gate


def _failed_fence() -> Fence:
    signal, fence = create_fence()
    signal.fail()
    require(fence.state is FenceState.ERROR, "a fence of this process does not fail")
    return fence


def _once(actor: Actor, plan: RequestPlan) -> _Launching:
    """One of the ways to launch a request with a prepared model."""
    prepared = plan.prepared.remote
    older = actor.perhaps(0.3)

    def call(fences: Sequence[Fence], deadline_ns: int, duration_ns: int) -> Started:
        arguments = (plan.request, fences, plan.config, deadline_ns, duration_ns)
        started = wire.execute_fenced(prepared, *arguments) if older else prepared.execute_fenced(*arguments)
        return _with_callback(actor, started)

    return call


def _reused(actor: Actor, execution: HeldExecution) -> _Launching:
    """One of the ways to launch a reusable execution."""
    execution.on_channel = actor.perhaps(0.6)
    if not execution.on_channel:

        def call(fences: Sequence[Fence], deadline_ns: int, duration_ns: int) -> Started:
            started = execution.remote.execute_fenced(fences, deadline_ns, duration_ns)
            return _with_callback(actor, started)

        return call
    launcher = actor.launcher()

    def call_on_channel(fences: Sequence[Fence], deadline_ns: int, duration_ns: int) -> Started:
        fence = launcher.launch(execution.remote, fences, deadline_ns, duration_ns)
        return Started(fence, lambda: launcher.info(execution.remote), lambda: None)

    return call_on_channel


def _with_callback(actor: Actor, started: RemoteFencedExecution) -> Started:
    def finish() -> None:
        started.release()
        actor.bury(started.info)

    return Started(started.fence, started.info, finish)


def _settle_all(actor: Actor) -> ErrorStatus:
    status = ErrorStatus.NONE
    while actor.launches:
        status = actor.settle(actor.launches[0])
    return status
