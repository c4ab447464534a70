"""Threads that take turns at a channel."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field

from nnhal_hosting.shifts import Shifts, Work


@dataclass
class Job:
    """Work that ends when a test lets it."""

    is_brief: bool = False
    begun: threading.Event = field(default_factory=threading.Event)
    end: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        self.begun.set()
        self.end.wait()
        self.ended.set()


class Calls:
    """A fake channel: incoming jobs, the number of those that were taken, and the end."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.over: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self.taken: queue.SimpleQueue[str] = queue.SimpleQueue()
        Shifts("test", self.exchange, self.over.put).start()

    def exchange(self) -> Work | None:
        """Take the next call."""
        job = self.jobs.get()
        self.taken.put(threading.current_thread().name)
        if job is None:
            raise EOFError
        return job


def test_calls_are_taken_while_work_is_done() -> None:
    calls, jobs = Calls(), [Job() for _ in range(5)]
    for job in jobs:
        calls.jobs.put(job)
        assert job.begun.wait(30)
    for job in jobs:
        job.end.set()
        assert job.ended.wait(30)
    calls.jobs.put(None)
    assert isinstance(calls.over.get(timeout=30), EOFError)


def test_brief_work_is_done_before_the_next_call_is_taken() -> None:
    calls, job = Calls(), Job(is_brief=True)
    calls.jobs.put(job)
    assert job.begun.wait(30)
    calls.taken.get(timeout=30)
    calls.jobs.put(None)
    assert calls.taken.empty()
    job.end.set()
    assert isinstance(calls.over.get(timeout=30), EOFError)


def test_the_end_is_reported_once_and_work_in_flight_is_finished() -> None:
    calls, job = Calls(), Job()
    calls.jobs.put(job)
    assert job.begun.wait(30)
    calls.jobs.put(None)
    assert isinstance(calls.over.get(timeout=30), EOFError)
    assert not job.ended.is_set()
    job.end.set()
    assert job.ended.wait(30)
    assert calls.over.empty()
