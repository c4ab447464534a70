"""Steps that are wired: they compute what other ways do, and what is lost with a chain is found again."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.link import ChannelClosedError
from nnhal.link.channel import channel_from
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, Model, Operand, RunUsage
from nnhal_service.partition import Fallback
from nnhal_service.runtime.run.bound_plan import BoundPlan
from nnhal_service.runtime.run.chained import Chained
from nnhal_service.runtime.run.wired import Wired
from nnhal_service.runtime.run.wiring import Bells
from tests.service.three_steps import ADD, EXPECTED, F32, MUL, TANH, X, add_mul_tanh, runs
from tests.support.picky import Bound, Loader, Picky, always
from tests.support.resources import resources_of
from tests.support.subgraphs import INT32, Program
from tests.support.waiting import settled, wait_until

NONE = ErrorStatus.NONE
ROUNDS = 10


def random_graph(seed: int, operations: int = 12) -> Model:
    """Return a graph of additions and products, each of two earlier values; the last four are outputs."""
    chance = random.Random(seed)
    program = Program()
    main = program.graph()
    values, none = [main.input((2,), F32)], main.constant(0, INT32)
    for _ in range(operations):
        terms = [chance.choice(values[-5:]) for _ in range(2)]
        values.append(main.operation(chance.choice((ADD, MUL)), [*terms, none], Operand(F32, (2,))))
    main.returns(*values[-4:])
    return program.model()


def way_of(bound: Bound) -> object:
    """Return how the steps of a binding are run."""
    plan: BoundPlan = bound.context.followed.bound
    return plan._steps


@pytest.mark.slow
@pytest.mark.parametrize("measures", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_any_graph_gives_what_it_gives_in_turn(
    load: Loader, monkeypatch: pytest.MonkeyPatch, seed: int, measures: bool
) -> None:
    prepared = load(random_graph(seed))
    wired = Bound(prepared, [X], [2] * 4, measure_timing=measures)
    with monkeypatch.context() as patch:
        patch.setattr("nnhal_service.runtime.run.bound_plan.Bells.are_allowed", False)
        patch.setattr("nnhal_service.runtime.run.bound_plan.MAX_FENCES", -1)
        in_turn = Bound(prepared, [X], [2] * 4)
    assert len(prepared.plan.steps) > 2
    assert isinstance(way_of(wired), Wired)
    for scale in (1.0, 0.5, -2.0):
        for bound in (wired, in_turn):
            bound.give(np.float32(scale) * X)
        report = wired.run()
        in_turn.run()
        assert wired.outputs() == in_turn.outputs()
        assert len(report.steps) == (len(prepared.plan.steps) if measures else 0)


def test_a_run_is_one_datagram_out_and_one_in(load: Loader) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2], measure_timing=False)
    bound.run()
    assert bound.run().socket_bytes < 64


def test_a_run_can_be_begun_and_finished_separately(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    bound.run()
    wired = way_of(bound)
    assert isinstance(wired, Wired) and wired.is_ready
    wired.start(NO_DEADLINE)
    assert wired.fileno() >= 0
    reports, outputs = wired.finish()
    assert ([report.device for report in reports], outputs) == (["add", "mul", "tanh"], [])
    devices[1].fails = always()
    wired.start(NO_DEADLINE)
    with pytest.raises(HalError, match="the step on mul: mul fails on demand"):
        wired.finish()
    assert [report.step for report in wired.done or ()] == [0]


def test_steps_without_an_order_run_at_the_same_time(load: Loader, devices: list[Picky]) -> None:
    """Each step waits until all three have begun."""
    program = Program()
    main = program.graph()
    x, none = main.input((2,), F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], Operand(F32, (2,)))
    square = main.operation(MUL, [x, x, none], Operand(F32, (2,)))
    main.returns(doubled, square, main.operation(TANH, [x], Operand(F32, (2,))))
    together = threading.Barrier(3, timeout=30)

    def meet() -> ErrorStatus:
        together.wait()
        return NONE

    for device in devices[:3]:
        device.fails = meet
    bound = Bound(load(program.model()), [X], [2, 2, 2])
    for _ in range(5):
        assert not bound.run().fell_back


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_without_fallback_the_error_names_the_step_and_the_chain_goes_on(
    load: Loader, devices: list[Picky], failing: int
) -> None:
    bound = Bound(load(add_mul_tanh(), Fallback.DENY), [X], [2])
    name = devices[failing].name
    bound.run()
    wired = way_of(bound)
    devices[failing].fails = always(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT)
    with pytest.raises(HalError, match=f"the step on {name}: {name} fails on demand") as caught:
        bound.run()
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert runs(devices) == [2, 2 if failing else 1, 2 if failing == 2 else 1, 0]
    devices[failing].fails = lambda: NONE
    bound.run()
    assert bound.outputs() == [EXPECTED]
    assert way_of(bound) is wired


def test_a_deadline_that_passes_in_a_step_ends_the_run_before_the_next(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh(), Fallback.DENY), [X], [2])
    bound.run()
    deadline_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 100_000_000

    def pass_the_deadline() -> ErrorStatus:
        wait_until(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) > deadline_ns, "the deadline passes")
        return NONE

    devices[0].fails = pass_the_deadline
    with pytest.raises(HalError) as caught:
        bound.context.run(deadline_ns)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert runs(devices)[1:] == [1, 1, 0]


def test_steps_that_a_device_does_not_wire_are_chained_by_fences(
    load: Loader, monkeypatch: pytest.MonkeyPatch, devices: list[Picky]
) -> None:
    monkeypatch.setattr("nnhal_devices.host.channels.wiring.MAX_BELLS", 0)
    bound = Bound(load(add_mul_tanh()), [X], [2])
    assert not bound.run().fell_back
    assert bound.outputs() == [EXPECTED]
    assert isinstance(way_of(bound), Chained)
    assert runs(devices) == [1, 1, 1, 0]


def test_a_device_that_does_not_say_that_it_can_be_wired_is_chained_by_fences(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnhal_devices.host.servicers.backend.BackendServicer._can_be_wired", False)
    bound = Bound(load(add_mul_tanh()), [X], [2])
    bound.run()
    assert bound.outputs() == [EXPECTED]
    assert isinstance(way_of(bound), Chained)


def test_more_predecessors_than_a_stage_may_have_are_chained_or_run_in_turn() -> None:
    many: list[tuple[int, ...]] = [(), *[(0,)] * 17, tuple(range(1, 18))]
    assert not Bells(many).are_allowed
    assert Bells(many[:17]).are_allowed
    long_line = [(number - 1,) if number else () for number in range(130)]
    assert not Bells(long_line).are_allowed
    assert Bells(long_line[:129]).are_allowed


def test_bells_order_what_needs_wait_for() -> None:
    bells = Bells([(), (), (0,), (2,), (1,)])
    assert [[len(each) for each in bells.of_stage(step)] for step in range(5)] == [
        [0, 1, 1, 0],
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 1],
    ]
    assert bells.behind({0}) == {2, 3}
    assert bells.behind({1}) == {4}
    assert bells.behind({0, 1}) == {2, 3, 4}


class Direct:
    """A client's end of a chain that it runs itself."""

    def __init__(self, bound: Bound) -> None:
        end = bound.context.open_run_channel()
        assert end is not None
        self.caller = channel_from(end.channel)
        self._call = burst_run(end.execution, NO_DEADLINE)

    def run(self) -> None:
        self.caller.send(self._call)
        assert self.caller.receive()


def test_a_client_runs_several_steps_directly_and_is_counted(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2], measure_timing=False)
    direct = Direct(bound)
    for _ in range(3):
        direct.run()
        assert bound.outputs() == [EXPECTED]
    bound.run()  # a run by the framework in between, over a chain of its own
    direct.run()
    usage = bound.context._direct_runs.take_usage(30)
    assert usage is not None
    assert usage[:2] == (4, 0)
    assert usage.duration_ns > 0
    bound.close()
    with pytest.raises(ChannelClosedError):
        direct.run()
        direct.run()
    assert runs(devices) == [5, 5, 5, 0]


def test_a_measured_binding_has_no_direct_runs(load: Loader) -> None:
    assert Bound(load(add_mul_tanh()), [X], [2]).context.open_run_channel() is None


def test_closing_a_direct_chain_waits_for_the_step_that_runs(load: Loader, devices: list[Picky]) -> None:
    """The framework then runs over the same memory."""
    bound = Bound(load(add_mul_tanh()), [X], [2], measure_timing=False)
    direct = Direct(bound)
    direct.run()
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> ErrorStatus:
        begun.set()
        assert go_on.wait(30)
        return NONE

    devices[1].fails = hold
    direct.caller.send(direct._call)
    assert begun.wait(30)
    direct.caller.close()
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(bound.context.close_run_channel)
        assert not closing.done()
        go_on.set()
        closing.result(30)
    devices[1].fails = lambda: NONE
    assert bound.context._direct_runs.take_usage(30) == RunUsage()
    assert not bound.run().fell_back
    assert bound.outputs() == [EXPECTED]


@pytest.mark.slow
@pytest.mark.parametrize("use", [lambda bound: bound.run(), Direct], ids=["framework", "direct"])
def test_bindings_leave_nothing_behind(load: Loader, use: Callable[[Bound], object]) -> None:
    """The devices are in this process as well."""
    prepared = load(add_mul_tanh())

    def bind_and_use() -> None:
        bound = Bound(prepared, [X], [2], measure_timing=False)
        use(bound)
        bound.close()

    for _ in range(2):  # a link drops what was put on it at its next use
        bind_and_use()
    before, threads = settled(lambda: resources_of(os.getpid())), settled(threading.active_count)
    for _ in range(ROUNDS):
        bind_and_use()
    wait_until(lambda: resources_of(os.getpid()).within(before), "descriptors and mappings are released")
    # Fewer than one a binding: the kept workers of the devices come and go with the load.
    wait_until(lambda: threading.active_count() < threads + ROUNDS, "threads have ended")


def test_a_chain_that_is_lost_without_its_devices_is_wired_again(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2], measure_timing=False)
    bound.run()
    wired = way_of(bound)
    assert isinstance(wired, Wired)
    chain = wired._chain
    assert chain is not None
    chain.wiring.unwire()
    report = bound.run()
    assert report.fell_back or bound.outputs() == [EXPECTED]
    bound.run()
    assert bound.outputs() == [EXPECTED]
    assert isinstance(way_of(bound), Wired)


def test_a_run_whose_chain_was_lost_holds_nothing(load: Loader, uncollected: None) -> None:
    class Memory:
        """Something that a caller uses."""

    bound = Bound(load(add_mul_tanh()), [X], [2], measure_timing=False)
    bound.run()

    def used() -> weakref.ref[Memory]:
        memory, wired = Memory(), way_of(bound)
        assert isinstance(wired, Wired) and wired._chain is not None
        wired._chain.wiring.unwire()
        bound.run()
        return weakref.ref(memory)

    memory = used()
    wait_until(lambda: memory() is None, "the memory is free")
