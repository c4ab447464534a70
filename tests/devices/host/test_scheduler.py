from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal_devices.host.clock import now_ns
from nnhal_devices.host.scheduler import Scheduler
from tests.support.refusals import refusal
from tests.support.waiting import wait_until

LOW, MEDIUM, HIGH = Priority.LOW, Priority.MEDIUM, Priority.HIGH
MISSED = ErrorStatus.MISSED_DEADLINE_TRANSIENT
HOUR = 3600 * 10**9
SECONDS = 30


class Device:
    """A scheduler whose one worker is busy, and executions that have queued up for it one after the other."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._executions: list[Future[None]] = []
        self.scheduler = Scheduler(1)
        self.scheduler.enter("whoever was there before", LOW, NO_DEADLINE)
        self.order: list[str] = []

    def queue(self, name: str, client: object = "client", priority: Priority = MEDIUM, deadline: int = -1) -> None:
        """Have an execution wait, which notes its name once it is admitted."""

        def execute() -> None:
            self.scheduler.enter(client, priority, deadline)
            self.order.append(name)
            self.scheduler.leave()

        before = self.scheduler.waiting
        self._executions.append(self._threads.submit(execute))
        wait_until(lambda: self.scheduler.waiting == before + 1, f"{name} waits")

    def run(self) -> list[str]:
        """Let the worker go; the order in which the executions were admitted."""
        self.scheduler.leave()
        for execution in self._executions:
            execution.result(SECONDS)
        return self.order


@pytest.fixture
def device() -> Iterator[Device]:
    with ThreadPoolExecutor(16) as threads:
        device = Device(threads)
        yield device
        if device.scheduler.waiting:  # the test has failed; its threads must end nevertheless
            device.scheduler.leave()


@pytest.mark.parametrize("workers", [0, -1])
def test_a_device_has_at_least_one_worker(workers: int) -> None:
    with pytest.raises(ValueError, match=f"{workers} workers, expected at least 1"):
        Scheduler(workers)


def test_a_free_worker_is_taken_at_once_even_past_the_deadline() -> None:
    scheduler = Scheduler(2)
    scheduler.enter("client", LOW, NO_DEADLINE)
    scheduler.enter("client", LOW, 0)
    assert scheduler.waiting == 0
    scheduler.leave()
    scheduler.leave()
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
    error = refusal(lambda: device.scheduler.enter("other", HIGH, now_ns() + 10**6), MISSED, "no worker was free")
    assert error.message == "no worker was free before the deadline; 1 other executions wait"
    refusal(lambda: device.scheduler.enter("client", HIGH, now_ns() - 1), MISSED, "1 other executions wait")
    assert device.scheduler.waiting == 1
    assert device.run() == ["patient"]
    device.scheduler.enter("client", LOW, NO_DEADLINE)


def test_never_more_than_the_workers_run_at_a_time() -> None:
    workers, executions = 3, 24
    scheduler, running, lock, most = Scheduler(workers), 0, threading.Lock(), 0
    all_busy = threading.Barrier(workers)

    def execute(number: int) -> None:
        nonlocal running, most
        scheduler.enter(number % 4, MEDIUM, NO_DEADLINE)
        with lock:
            running += 1
            most = max(most, running)
        all_busy.wait(SECONDS)  # three at a time and no fewer, or nobody goes on
        with lock:
            running -= 1
        scheduler.leave()

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
            scheduler.enter("client", MEDIUM, now_ns() + 200_000)
        except HalError:
            return False
        scheduler.leave()
        return True

    with ThreadPoolExecutor(8) as threads:
        outcomes = threads.map(attempt, range(200))
        scheduler.leave()
        admitted = sum(outcomes)
    assert scheduler.ended == admitted + 1
    assert scheduler.waiting == 0
    scheduler.enter("client", MEDIUM, 0)
