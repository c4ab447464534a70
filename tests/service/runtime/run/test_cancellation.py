"""Runs that are cancelled while a step runs: no other begins, none falls back, and the binding can run again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.types import ErrorStatus, Model, Operand
from nnhal_service.partition import Fallback
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError
from tests.service.three_steps import ADD, EXPECTED, F32, MUL, TANH, X, add_mul_tanh, runs
from tests.support.picky import Bound, Loader, Picky
from tests.support.resources import resources_of
from tests.support.subgraphs import INT32, Program, counting_loop
from tests.support.waiting import wait_until

NONE = ErrorStatus.NONE


def branches() -> Model:
    """Return 2x, x * x and tanh(x), which are independent steps."""
    program = Program()
    main = program.graph()
    x, none = main.input((2,), F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], Operand(F32, (2,)))
    square = main.operation(MUL, [x, x, none], Operand(F32, (2,)))
    main.returns(doubled, square, main.operation(TANH, [x], Operand(F32, (2,))))
    return program.model()


def cancelling(cancellation: Cancellation, status: ErrorStatus = NONE) -> Callable[[], ErrorStatus]:
    """Return a function that cancels the run of a step, which then ends with ``status``."""

    def cancel() -> ErrorStatus:
        cancellation.cancel()
        return status

    return cancel


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("during", [0, 1])
def test_no_step_begins_after_the_running_one(load: Loader, devices: list[Picky], during: int) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    bound.run()
    for _ in range(3):
        before, cancellation = runs(devices), Cancellation()
        devices[during].fails = cancelling(cancellation)
        with pytest.raises(CancelledRunError, match="the run has been cancelled"):
            bound.run(cancellation)
        assert np.subtract(runs(devices), before).tolist() == [1, during, 0, 0]
        devices[during].fails = lambda: NONE
        assert not bound.run(Cancellation()).fell_back
        assert bound.outputs() == [EXPECTED]


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.DENY])
def test_a_step_that_fails_in_a_cancelled_run_has_no_fallback(
    load: Loader, devices: list[Picky], fallback: Fallback
) -> None:
    bound, cancellation = Bound(load(add_mul_tanh(), fallback), [X], [2]), Cancellation()
    devices[1].fails = cancelling(cancellation, ErrorStatus.GENERAL_FAILURE)
    with pytest.raises(CancelledRunError):
        bound.run(cancellation)
    assert runs(devices) == [1, 1, 0, 0]


@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.DENY])
def test_a_walk_ends_between_its_rounds(load: Loader, devices: list[Picky], fallback: Fallback) -> None:
    """The condition runs on the CPU, the body on the device for additions."""
    add, cpu = devices[0], devices[3]
    bound, cancellation = Bound(load(counting_loop(), fallback), [i32(-50_000), i32(1000)], [1]), Cancellation()
    cancel = cancelling(cancellation)
    add.fails = lambda: cancel() if add.runs == 5 else NONE
    with pytest.raises(CancelledRunError):
        bound.run(cancellation)
    assert (add.runs, cpu.runs) == (5, 5)
    bound.give(i32(0), i32(7))
    bound.run()
    assert bound.outputs() == [[7]]


@pytest.mark.usefixtures("at_once")
def test_all_steps_that_have_begun_have_ended_when_a_cancelled_run_returns(load: Loader, devices: list[Picky]) -> None:
    """Afterwards the caller owns the memory again, so the run waits for every step that has begun, on any device."""
    add, mul, tanh, _ = devices
    bound, cancellation = Bound(load(branches()), [X], [2, 2, 2]), Cancellation()
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> ErrorStatus:
        begun.set()
        assert go_on.wait(30)
        return NONE

    mul.fails = hold
    with ThreadPoolExecutor() as threads:
        run = threads.submit(bound.run, cancellation)
        assert begun.wait(30)
        cancellation.cancel()
        assert not run.done()
        go_on.set()
        with pytest.raises(CancelledRunError):
            run.result(30)
    mul.fails = lambda: NONE
    bound.run()
    assert runs([mul]) == [2]
    assert max(add.runs, tanh.runs) <= 2
    assert bound.outputs()[0] == (2 * X).tolist()


@pytest.mark.usefixtures("runner")
def test_a_run_that_was_cancelled_before_runs_at_most_its_first_step(load: Loader, devices: list[Picky]) -> None:
    bound, cancellation = Bound(load(add_mul_tanh()), [X], [2]), Cancellation()
    cancellation.cancel()
    with pytest.raises(CancelledRunError):
        bound.run(cancellation)
    assert runs(devices)[1:] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_runs_cancelled_at_any_moment_leave_the_binding_usable(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    bound.run()
    held = resources_of(os.getpid())
    cancelled = 0
    with ThreadPoolExecutor(1) as threads:
        for _ in range(200):
            cancellation = Cancellation()
            cancelling_thread = threads.submit(cancellation.cancel)
            try:
                bound.run(cancellation)
            except CancelledRunError:
                cancelled += 1
            cancelling_thread.result(30)
        bound.run()
    assert cancelled
    assert bound.outputs() == [EXPECTED]
    assert devices[3].runs == 0
    wait_until(lambda: resources_of(os.getpid()).within(held), "nothing else is held")


def test_callbacks_come_once_whenever_it_is_cancelled() -> None:
    cancellation, seen = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: seen.append("before"))
    cancellation.cancel()
    cancellation.cancel()
    cancellation.on_cancel(lambda: seen.append("after"))
    assert cancellation.cancelled and seen == ["before", "after"]


def test_a_forgotten_callback_does_not_come() -> None:
    cancellation, seen = Cancellation(), list[str]()

    def callback() -> None:
        seen.append("called")

    cancellation.on_cancel(callback)
    cancellation.forget(callback)
    cancellation.forget(callback)
    cancellation.cancel()
    assert seen == []


@pytest.mark.usefixtures("runner")
def test_a_run_without_a_cancellation_of_its_own_is_cancelled_by_its_context(
    load: Loader, devices: list[Picky]
) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    bound.run()
    assert bound.context.running is None

    def cancel() -> ErrorStatus:
        running = bound.context.running
        assert running is not None and bound.context.cancel(running)
        assert not bound.context.cancel(running._replace(since_ns=running.since_ns - 1))
        return NONE

    for _ in range(2):
        before = runs(devices)
        devices[0].fails = cancel
        with pytest.raises(CancelledRunError):
            bound.run()
        assert np.subtract(runs(devices), before).tolist() == [1, 0, 0, 0]
        devices[0].fails = lambda: NONE
        bound.run()
        assert bound.outputs() == [EXPECTED]
