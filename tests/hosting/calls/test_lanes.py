"""Threads that serve the calls of several clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nnhal_hosting.calls.lanes import CallThreads, Lane, WaitingCall
from tests.support.waiting import wait_until


class Served:
    """Threads, and calls that go on when they may."""

    def __init__(self, shared: int) -> None:
        self.threads = CallThreads(shared)
        self.running: list[str] = []
        self.ended: list[str] = []
        self.may_end = threading.Event()

    def call(self, lane: Lane, name: str, receives: bool = True) -> WaitingCall:
        """Submit a call that waits until it may end, with its message or still without it."""

        def work() -> None:
            if receives:
                self.threads.received(call)
            self.running.append(name)
            self.may_end.wait(30)
            self.threads.received(call)
            self.ended.append(name)

        call = WaitingCall(work)
        self.threads.submit(lane, call)
        return call

    def await_running(self, count: int) -> None:
        wait_until(lambda: len(self.running) == count, f"{count} calls run")


@pytest.fixture
def served() -> Iterator[Served]:
    threads = Served(shared=3)
    yield threads
    threads.may_end.set()
    threads.threads.close()


def test_a_lane_has_its_own_threads_whatever_others_hold(served: Served) -> None:
    greedy, modest = Lane(2), Lane(2)
    for number in range(10):
        served.call(greedy, f"greedy {number}")
    served.await_running(2 + 3)
    served.call(modest, "modest 0")
    served.call(modest, "modest 1")
    served.await_running(2 + 3 + 2)
    assert served.running[-2:] == ["modest 0", "modest 1"]
    served.may_end.set()
    wait_until(lambda: len(served.ended) == 12, "all are served")


def test_a_call_that_receives_holds_one_thread_of_its_lane_only(served: Served) -> None:
    lane, other = Lane(2), Lane(2)
    for number in range(5):
        served.call(lane, f"slow {number}", receives=False)
    served.await_running(1)
    for number in range(5):
        served.call(other, f"other {number}")
    served.await_running(6)
    assert [name for name in served.running if name.startswith("slow")] == ["slow 0"]


def test_a_lane_may_be_kept_to_its_own_threads_and_hear_its_newest_call_first(served: Served) -> None:
    lane = Lane(1, may_share=False, newest_first=True)
    served.call(lane, "first")
    served.await_running(1)
    for name in ("second", "third", "fourth"):
        served.call(lane, name)
    refusals = Lane(1, may_share=False)
    served.threads.refuse_oldest(lane, refusals, "too many")
    served.await_running(2)
    assert served.running == ["first", "second"]
    served.may_end.set()
    wait_until(lambda: len(served.ended) == 4, "all are served")
    assert served.running[2:] == ["fourth", "third"]


def test_calls_are_served_if_no_more_threads_can_be_started(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    for number in range(3):
        served.call(Lane(2), f"call {number}")
    served.await_running(1)
    served.may_end.set()
    wait_until(lambda: len(served.ended) == 3, "all are served")


def test_threads_end_when_they_are_closed(served: Served) -> None:
    before = threading.active_count()
    for number in range(4):
        served.call(Lane(2), f"call {number}")
    served.await_running(4)
    served.may_end.set()
    served.threads.close()
    assert len(served.ended) == 4
    assert threading.active_count() < before
