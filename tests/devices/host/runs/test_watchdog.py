from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nnhal.clock import now_ns
from nnhal.types import NO_DEADLINE, Priority
from nnhal_devices.driver import Control
from nnhal_devices.host.runs.scheduler import Scheduler
from nnhal_devices.host.runs.watchdog import Watchdog
from tests.support.waiting import SECONDS, wait_until


class Work:
    """An execution that runs until it is left, with what the watchdog does about it."""

    def __init__(self, scheduler: Scheduler, deadline_ns: int = NO_DEADLINE) -> None:
        self.priority = Priority.MEDIUM
        self.is_reserved = False
        self.owner = self
        self.unwanted = ""
        self.slowest_ns = 0
        self.stopped = threading.Event()
        self.control = Control(deadline_ns, stop=self.stopped.set)
        scheduler.enter(self, self.control)


class Bench:
    """A scheduler with room for three executions, and its watchdog."""

    def __init__(self, patience: float, turn: float = 3600, workers: int = 3, hang: float = 0) -> None:
        self.scheduler = Scheduler(workers)
        self.given_up = threading.Event()
        self.watchdog = Watchdog(self.scheduler, patience, turn, last_resort=lambda _: self.given_up.set(), hang=hang)


@pytest.fixture
def patient() -> Iterator[Bench]:
    """A watchdog that never resorts to the last."""
    bench = Bench(3600)
    with bench.watchdog:
        yield bench


@pytest.fixture
def strict() -> Iterator[Bench]:
    """A watchdog that gives up at the second look."""
    bench = Bench(0.001)
    with bench.watchdog:
        yield bench


def test_work_is_stopped_at_its_deadline_and_other_work_is_not(patient: Bench) -> None:
    other, later = Work(patient.scheduler), Work(patient.scheduler, now_ns() + 10**12)
    late = Work(patient.scheduler, now_ns())
    assert late.stopped.wait(SECONDS)
    assert late.control.interrupted and not late.control.cancelled
    assert not other.control.interrupted and not later.control.interrupted
    assert not patient.given_up.is_set()


def test_work_that_nobody_waits_for_is_cancelled(patient: Bench) -> None:
    work = Work(patient.scheduler)
    work.unwanted = "everybody has gone home"
    assert work.stopped.wait(SECONDS)
    assert (work.control.cancelled, work.control.reason) == (True, "everybody has gone home")


def test_work_in_the_command_queue_is_stopped_too(patient: Bench) -> None:
    work = Work(patient.scheduler)
    patient.scheduler.leave(work)
    control = Control(now_ns(), stop=work.stopped.set)
    number = patient.scheduler.note_enqueued(work, control)
    assert work.stopped.wait(SECONDS)
    patient.scheduler.forget_enqueued(number)
    assert patient.scheduler.is_idle


def test_a_driver_that_does_not_stop_ends_the_process(strict: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    Work(strict.scheduler, now_ns())
    assert strict.given_up.wait(SECONDS)
    assert "its driver cannot stop it" in capsys.readouterr().out


def test_a_driver_that_fails_to_stop_is_no_harm_to_others(patient: Bench) -> None:
    failing, late = Work(patient.scheduler, now_ns()), Work(patient.scheduler, now_ns())
    failing.control.stop = lambda: 1 / 0
    assert late.stopped.wait(SECONDS)
    assert failing.control.interrupted


def test_work_without_a_deadline_that_is_wanted_is_never_given_up(strict: Bench) -> None:
    endless, ended = Work(strict.scheduler), Work(strict.scheduler)
    ended.control.stop = lambda: strict.scheduler.leave(ended) if not ended.stopped.is_set() else None
    ended.unwanted = "told"
    wait_until(lambda: ended.control.interrupted, "the watchdog has looked")
    assert not endless.control.interrupted


def test_it_sleeps_while_there_is_no_work_and_wakes_with_the_next(patient: Bench) -> None:
    wait_until(lambda: not patient.scheduler.wakes.is_set(), "the watchdog sleeps")
    late = Work(patient.scheduler, now_ns())
    assert late.stopped.wait(SECONDS)


def test_an_execution_that_takes_long_does_not_have_others_wait_for_ever() -> None:
    bench = Bench(3600, turn=0.001, workers=1)
    with bench.watchdog:
        endless = [Work(bench.scheduler) for _ in range(3)]
        last = Work(bench.scheduler)
        for work in (*endless, last):
            assert not work.control.cancelled
            bench.scheduler.leave(work)
        assert bench.scheduler.is_idle and bench.scheduler.has_free_worker


def test_an_execution_keeps_its_worker_while_its_turn_lasts(patient: Bench) -> None:
    endless = [Work(patient.scheduler) for _ in range(3)]
    late = threading.Thread(target=Work, args=(patient.scheduler,))
    late.start()
    wait_until(lambda: patient.scheduler.waiting == 1, "another one waits")
    endless[0].unwanted = "the watchdog looks"
    assert endless[0].stopped.wait(SECONDS)
    assert patient.scheduler.waiting == 1
    patient.scheduler.leave(endless[0])
    late.join(SECONDS)
    assert not late.is_alive()


def test_work_that_takes_far_longer_than_it_ever_has_is_cancelled() -> None:
    bench = Bench(3600, hang=0.001)
    with bench.watchdog:
        first, long, hanging = (Work(bench.scheduler) for _ in range(3))
        long.slowest_ns, hanging.slowest_ns = 10**12, 10**6
        assert hanging.stopped.wait(SECONDS)
        assert "its slowest run took 0.001 s" in hanging.control.reason
        assert not first.control.cancelled and not long.control.cancelled
    assert bench.watchdog.hung.number == 1 and hanging.control.reason in bench.watchdog.hung.last


def test_work_that_was_always_brief_may_take_some_time() -> None:
    bench = Bench(3600, hang=3600)
    with bench.watchdog:
        brief, unwanted = Work(bench.scheduler), Work(bench.scheduler)
        brief.slowest_ns, unwanted.unwanted = 1, "the watchdog looks"
        assert unwanted.stopped.wait(SECONDS)
        assert not brief.control.cancelled
