from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal_devices.driver import Control
from nnhal_devices.host.runs.scheduler import Scheduler
from tests.support.refusals import refusal
from tests.support.waiting import SECONDS, wait_until

LOW, MEDIUM, HIGH = Priority.LOW, Priority.MEDIUM, Priority.HIGH
MISSED = ErrorStatus.MISSED_DEADLINE_TRANSIENT
HOUR = 3600 * 10**9


def test_no_execution_of_a_serial_driver_runs_beside_another() -> None:
    scheduler = Scheduler(4, is_serial=True)
    assert scheduler.workers == 1
    first = Work().enter(scheduler)
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(Work().enter, scheduler)
        wait_until(lambda: scheduler.waiting == 1, "the second execution")
        scheduler.relieve(0)
        assert scheduler.waiting == 1
        scheduler.leave(first)
        scheduler.leave(second.result())


class Work:
    """An execution of a client."""

    def __init__(self, client: object = "client", priority: Priority = MEDIUM, is_reserved: bool = False) -> None:
        self.owner = client
        self.priority = priority
        self.is_reserved = is_reserved
        self.unwanted = ""
        self.slowest_ns = 0

    def enter(self, scheduler: Scheduler, deadline_ns: int = NO_DEADLINE) -> Work:
        scheduler.enter(self, Control(deadline_ns))
        return self


class Device:
    """A scheduler whose one worker is busy, and executions that have queued up for it one after the other."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._executions: list[Future[None]] = []
        self.scheduler = Scheduler(1)
        self._first = Work("whoever was there before").enter(self.scheduler)
        self.order: list[str] = []

    def queue(
        self, name: str, client: object = "client", priority: Priority = MEDIUM, deadline: int = -1
    ) -> tuple[Work, Future[None]]:
        """Have an execution wait, which notes its name once it is admitted; return it, and how it ends."""
        work = Work(client, priority)

        def execute() -> None:
            work.enter(self.scheduler, deadline)
            self.order.append(name)
            self.scheduler.leave(work)

        before = self.scheduler.waiting
        self._executions.append(self._threads.submit(execute))
        wait_until(lambda: self.scheduler.waiting == before + 1, f"{name} waits")
        return work, self._executions[-1]

    def run(self) -> list[str]:
        """Let the worker go; the order in which the executions were admitted."""
        self.let_go()
        for execution in self._executions:
            execution.result(SECONDS)
        return self.order

    def run_others(self, ended: Future[None]) -> list[str]:
        """Do as ``run``, after one of the executions has ended."""
        self._executions.remove(ended)
        return self.run()

    def let_go(self) -> None:
        self.scheduler.leave(self._first)


@pytest.fixture
def device() -> Iterator[Device]:
    with ThreadPoolExecutor(16) as threads:
        device = Device(threads)
        yield device
        if device.scheduler.waiting:  # the test has failed; its threads must end nevertheless
            device.let_go()


@pytest.mark.parametrize("workers", [0, -1])
def test_a_device_has_at_least_one_worker(workers: int) -> None:
    with pytest.raises(ValueError, match=f"{workers} workers, expected at least 1"):
        Scheduler(workers)


def test_a_free_worker_is_taken_at_once_even_past_the_deadline() -> None:
    scheduler = Scheduler(2)
    both = Work().enter(scheduler), Work().enter(scheduler, 0)
    assert scheduler.waiting == 0
    for work in both:
        scheduler.leave(work)
    assert scheduler.ended == 2


def test_executions_of_one_client_run_in_the_order_in_which_they_came(device: Device) -> None:
    for name in "abcd":
        device.queue(name)
    assert device.run() == ["a", "b", "c", "d"]
    assert (device.scheduler.waiting, device.scheduler.ended) == (0, 5)


def test_a_higher_priority_of_the_same_client_goes_first(device: Device) -> None:
    for name, priority in [("low", LOW), ("medium", MEDIUM), ("high", HIGH), ("low too", LOW), ("high too", HIGH)]:
        device.queue(name, priority=priority)
    assert device.run() == ["high", "high too", "medium", "low", "low too"]


def test_among_equal_priorities_the_earlier_deadline_goes_first(device: Device) -> None:
    device.queue("never")
    device.queue("late", deadline=now_ns() + 2 * HOUR)
    device.queue("early", deadline=now_ns() + HOUR)
    device.queue("high", priority=HIGH, deadline=now_ns() + 3 * HOUR)
    assert device.run() == ["high", "early", "late", "never"]


def test_clients_take_turns_whatever_their_number_of_executions(device: Device) -> None:
    for number in range(4):
        device.queue(f"greedy {number}", client="greedy")
    device.queue("modest", client="modest")
    device.queue("third", client="third")
    assert device.run() == ["greedy 0", "modest", "third", "greedy 1", "greedy 2", "greedy 3"]


def test_a_priority_gives_no_right_against_other_clients(device: Device) -> None:
    device.queue("low", client="one", priority=LOW)
    device.queue("high", client="other", priority=HIGH)
    device.queue("high too", client="other", priority=HIGH)
    assert device.run() == ["low", "high", "high too"]


@pytest.mark.contract("QS-09", "QS-10")
def test_a_deadline_that_passes_while_waiting_is_missed_and_the_worker_stays_with_the_others(device: Device) -> None:
    device.queue("patient")
    error = refusal(lambda: Work("other", HIGH).enter(device.scheduler, now_ns() + 10**6), MISSED, "no worker was free")
    assert error.message == "no worker was free before the deadline; 1 other executions wait"
    refusal(lambda: Work("client", HIGH).enter(device.scheduler, now_ns() - 1), MISSED, "1 other executions wait")
    assert device.scheduler.waiting == 1
    assert device.run() == ["patient"]
    Work().enter(device.scheduler)


def test_never_more_than_the_workers_run_at_a_time() -> None:
    workers, executions = 3, 24
    scheduler, running, lock, most = Scheduler(workers), 0, threading.Lock(), 0
    all_busy = threading.Barrier(workers)

    def execute(number: int) -> None:
        nonlocal running, most
        work = Work(number % 4).enter(scheduler)
        with lock:
            running += 1
            most = max(most, running)
        all_busy.wait(SECONDS)  # three at a time and no fewer, or nobody goes on
        with lock:
            running -= 1
        scheduler.leave(work)

    with ThreadPoolExecutor(executions) as threads:
        list(threads.map(execute, range(executions)))
    assert most == workers
    assert (scheduler.ended, scheduler.waiting) == (executions, 0)


def test_an_execution_that_is_admitted_at_its_deadline_has_the_worker_or_an_error_and_never_both(
    device: Device,
) -> None:
    """A worker is handed over while the deadlines of those who wait pass."""
    scheduler = device.scheduler

    def attempt(_: int) -> bool:
        try:
            work = Work().enter(scheduler, now_ns() + 200_000)
        except HalError:
            return False
        scheduler.leave(work)
        return True

    with ThreadPoolExecutor(8) as threads:
        outcomes = threads.map(attempt, range(200))
        device.let_go()
        admitted = sum(outcomes)
    assert scheduler.ended == admitted + 1
    assert scheduler.waiting == 0
    Work().enter(scheduler, 0)


def test_what_runs_and_what_waits_is_known_with_its_limits_and_since_when(device: Device) -> None:
    before, deadline = now_ns(), now_ns() + HOUR
    first, _ = device.queue("first", deadline=deadline)
    second, _ = device.queue("second", client="other")
    (running,), queued = device.scheduler.admissions()
    assert running.execution.owner == "whoever was there before"
    assert running.since_ns < before
    assert [admission.execution for admission in queued] == [first, second]
    assert [admission.control.deadline_ns for admission in queued] == [deadline, NO_DEADLINE]
    assert before <= queued[0].since_ns <= queued[1].since_ns <= now_ns()
    assert running.number < queued[0].number < queued[1].number
    device.run()
    assert device.scheduler.admissions() == ([], [])


def test_an_execution_keeps_its_number_when_it_is_admitted() -> None:
    scheduler, numbers = Scheduler(1), list[int]()
    first, second = Work().enter(scheduler), Work()

    def execute() -> None:
        second.enter(scheduler)
        numbers.extend(admission.number for admission in scheduler.admissions()[0])
        scheduler.leave(second)

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(execute)
        wait_until(lambda: scheduler.waiting == 1, "the second waits")
        (waiting,) = scheduler.admissions()[1]
        scheduler.leave(first)
        done.result(SECONDS)
    assert numbers == [waiting.number]


def test_an_execution_that_waits_is_withdrawn_when_it_is_cancelled_and_the_others_go_on(device: Device) -> None:
    device.queue("before")
    end = device.queue("cancelled")[1]
    number = device.scheduler.admissions()[1][-1].number
    device.queue("after")
    assert device.scheduler.cancel(number) is True
    refusal(lambda: end.result(SECONDS), ErrorStatus.GENERAL_FAILURE, "cancelled by an operator")
    assert device.scheduler.cancel(number) is None
    assert device.run_others(end) == ["before", "after"]
    assert device.scheduler.ended == 3


def test_an_execution_that_runs_is_told_that_it_is_cancelled() -> None:
    scheduler, work, control = Scheduler(1), Work(), Control()
    scheduler.enter(work, control)
    ((running,), _) = scheduler.admissions()
    assert scheduler.cancel(running.number) is False
    refusal(control.check, ErrorStatus.GENERAL_FAILURE, "cancelled by an operator")
    scheduler.leave(work)
    assert scheduler.cancel(running.number) is None


def test_a_device_that_drains_finishes_what_it_has_and_takes_nothing_new(device: Device) -> None:
    device.queue("waits already")
    device.scheduler.drain(True)
    assert device.scheduler.draining
    unavailable = ErrorStatus.DEVICE_UNAVAILABLE
    refusal(lambda: Work().enter(device.scheduler), unavailable, "the device is draining: it takes no new work")
    refusal(device.scheduler.require_open, unavailable, "the device is draining")
    assert device.run() == ["waits already"]
    refusal(lambda: Work().enter(device.scheduler), unavailable, "the device is draining")
    launched_before = Work(is_reserved=True).enter(device.scheduler)
    device.scheduler.leave(launched_before)
    device.scheduler.drain(False)
    device.scheduler.require_open()
    device.scheduler.leave(Work().enter(device.scheduler))


def test_a_device_that_has_drained_has_as_many_workers_as_before() -> None:
    scheduler = Scheduler(2)
    before = Work().enter(scheduler)
    for _ in range(2):
        scheduler.drain(True)
    assert not scheduler.has_free_worker
    reserved = Work(is_reserved=True).enter(scheduler)
    for work in (before, reserved):
        scheduler.leave(work)
    for _ in range(2):
        scheduler.drain(False)
    both = Work().enter(scheduler), Work().enter(scheduler)
    assert not scheduler.has_free_worker
    refusal(lambda: Work().enter(scheduler, 0), MISSED, "no worker was free")
    for work in both:
        scheduler.leave(work)
    assert scheduler.has_free_worker


def test_workers_are_busy_while_executions_run_and_not_in_between() -> None:
    scheduler, before = Scheduler(2), now_ns()
    both = Work().enter(scheduler), Work().enter(scheduler)
    since = [admission.since_ns for admission in scheduler.admissions()[0]]
    between = now_ns()
    assert scheduler.busy_ns >= sum(between - begun for begun in since)
    for work in both:
        scheduler.leave(work)
    busy = scheduler.busy_ns
    assert sum(between - begun for begun in since) <= busy <= 2 * (now_ns() - before)
    assert scheduler.busy_ns == busy
