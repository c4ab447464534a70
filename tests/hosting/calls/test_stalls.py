"""Calls whose messages take their time, and the memory of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from nnhal_hosting.calls.lanes import WaitingCall
from nnhal_hosting.calls.stalls import StallWatch
from tests.support.waiting import wait_until

LIMIT = 100
LONG = 300.0


class Calls:
    """Calls that receive, in a process whose memory is what the test says."""

    def __init__(self) -> None:
        self.used = 0
        self.looks = 0
        self.cancelled: list[str] = []
        self.watch = StallWatch(LONG, LIMIT, self._used)
        self.receiving = ExitStack()

    def receive(self, name: str) -> None:
        context: Any = _Context(name, self.cancelled)
        self.receiving.enter_context(self.watch.watching(context, WaitingCall(lambda: None)))

    def await_looks(self, count: int = 3) -> None:
        before = self.looks
        wait_until(lambda: self.looks >= before + count, "the memory is looked at")

    def _used(self) -> int:
        self.looks += 1
        return self.used


class _Context:
    def __init__(self, name: str, cancelled: list[str]) -> None:
        self._name, self._cancelled = name, cancelled

    def __getattr__(self, name: str) -> Any:
        assert name == "cancel"
        return lambda: self._cancelled.append(self._name)


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    yield made
    made.receiving.close()
    made.watch.close()


def test_all_but_the_oldest_are_cancelled_when_the_process_grows_beyond_the_limit(calls: Calls) -> None:
    for name in ("oldest", "second", "third"):
        calls.receive(name)
    calls.await_looks()
    assert not calls.cancelled
    calls.used = LIMIT
    calls.await_looks()
    assert not calls.cancelled, "it has grown by as much as it may"
    calls.used = LIMIT + 1
    wait_until(lambda: len(calls.cancelled) >= 2, "two are cancelled")
    assert set(calls.cancelled) == {"second", "third"}


def test_what_the_process_had_before_messages_came_counts_for_none_of_them(calls: Calls) -> None:
    calls.receive("before")
    calls.await_looks()
    calls.receiving.close()
    calls.used = 10 * LIMIT
    for name in ("first", "second"):
        calls.receive(name)
    calls.await_looks()
    assert not calls.cancelled
