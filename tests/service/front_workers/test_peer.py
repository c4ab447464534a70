"""Calls between two processes, of which a test has both ends in one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.link import channel_pair
from nnhal.link.channel import channel_from
from nnhal.types import Ashmem, ErrorStatus
from nnhal_service.front_workers.peer import Peer, begin, without_answer
from nnhal_service.runtime import OutputReport, OutputTooSmallError
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving import ErrorKind, ServingError


class Kept:
    """An object that stays in its process."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.closed = threading.Event()

    def add(self, more: int) -> int:
        self.value += more
        return self.value

    def close(self) -> None:
        self.closed.set()


class Echo:
    """What both ends serve: it answers with what it is given."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.kept: list[Kept] = []

    def say(self, value: object, *, times: int = 1) -> list[object]:
        return [value] * times

    def fail(self, error: Exception) -> None:
        raise error

    def contents(self, memory: Ashmem) -> tuple[bytes, Sequence[Descriptor]]:
        return os.pread(memory.descriptor.fileno(), memory.size, 0), [memory.descriptor]

    def wait(self) -> None:
        assert self.go_on.wait(30)

    def wait_until_cancelled(self, cancellation: Cancellation) -> None:
        cancelled = threading.Event()
        cancellation.on_cancel(cancelled.set)
        assert cancelled.wait(30)

    def keep(self, value: int) -> Kept:
        kept = Kept(value)
        self.kept.append(kept)
        return kept

    def is_kept(self, kept: Kept) -> bool:
        return kept in self.kept

    def _private(self) -> None:
        raise AssertionError("not for the other end")


class Ends:
    """Both ends."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        channel, theirs = channel_pair()
        self.target = Echo()
        self.gone = [threading.Event(), threading.Event()]
        self.here = Peer(channel, executor, self.gone[0].set, (Kept,))
        self.there = Peer(channel_from(theirs), executor, self.gone[1].set, (Kept,))
        self.here.start()
        self.there.start()
        self.echo: Echo = self.here.remote(Echo)

    def serve(self) -> None:
        for end in (self.here, self.there):
            end.serve({Echo: self.target})


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ThreadPoolExecutor(4) as executor:
        found = Ends(executor)
        found.serve()
        yield found
        found.target.go_on.set()
        found.here.close()
        for gone in found.gone:
            assert gone.wait(30)


def test_either_end_calls_the_other(ends: Ends) -> None:
    assert ends.echo.say("a", times=2) == ["a", "a"]
    assert ends.there.remote(Echo).say({"b": 1}) == [{"b": 1}]


@pytest.mark.parametrize("size", [0, 60_000, 70_000, 5_000_000])
def test_messages_have_any_size(ends: Ends, size: int) -> None:
    assert ends.echo.say(b"x" * size) == [b"x" * size]


def test_memory_and_descriptors_pass(ends: Ends, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = Ashmem(Descriptor(os.open(path, os.O_RDONLY)), 7)
    contents, (descriptor,) = ends.echo.contents(memory)
    assert contents == b"content"
    assert os.path.samestat(os.fstat(descriptor.fileno()), path.stat())
    assert descriptor.fileno() != memory.descriptor.fileno()


@pytest.mark.parametrize(
    "error",
    [
        ServingError(ErrorKind.NOT_FOUND, "no such model"),
        HalError(ErrorStatus.INVALID_ARGUMENT, "wrong"),
        OutputTooSmallError("cpu_acc", [OutputReport("y", (2, 3), False)]),
        OSError(24, "Too many open files"),
    ],
)
def test_errors_arrive_as_they_were_raised(ends: Ends, error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        ends.echo.fail(error)
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)
    assert ends.echo.say(1) == [1]


def test_a_defect_is_told_as_an_internal_error(ends: Ends) -> None:
    with pytest.raises(ServingError, match="the server failed") as raised:
        ends.echo.fail(KeyError("secret"))
    assert raised.value.kind is ErrorKind.INTERNAL


def test_calls_wait_for_none_of_one_another(ends: Ends) -> None:
    answer = begin(ends.echo.wait)
    assert ends.echo.say(1) == [1]
    with pytest.raises(TimeoutError):
        answer.result(0)
    ends.target.go_on.set()


def test_calls_wait_until_the_other_end_serves() -> None:
    with ThreadPoolExecutor(4) as executor:
        ends = Ends(executor)
        answer = begin(ends.echo.say, 1)
        assert not answer.done()
        ends.serve()
        assert answer.result(30) == [1]
        ends.here.close()


def test_a_call_is_cancelled_that_has_not_begun() -> None:
    with ThreadPoolExecutor(1) as executor:
        ends = Ends(executor)
        ends.serve()
        first, cancellation = begin(ends.echo.wait), Cancellation()
        second = begin(ends.echo.wait_until_cancelled, cancellation)
        cancellation.cancel()
        ends.target.go_on.set()
        first.result(30)
        second.result(30)
        ends.here.close()


def test_a_call_that_runs_is_cancelled(ends: Ends) -> None:
    cancellation = Cancellation()
    answer = begin(ends.echo.wait_until_cancelled, cancellation)
    cancellation.cancel()
    answer.result(30)


def test_calls_of_an_end_that_is_gone_are_cancelled(ends: Ends) -> None:
    reached = threading.Event()
    ended = threading.Event()

    class Noting(Echo):
        def wait_until_cancelled(self, cancellation: Cancellation) -> None:
            reached.set()
            super().wait_until_cancelled(cancellation)
            ended.set()

    ends.there.serve({Echo: Noting()})
    answer = begin(ends.echo.wait_until_cancelled, Cancellation())
    assert reached.wait(30)
    ends.here.close()
    assert ended.wait(30)
    with pytest.raises(ServingError, match="stopping"):
        answer.result(30)


def test_an_object_that_stays_is_used_from_the_other_end_until_it_is_closed(ends: Ends) -> None:
    kept = ends.echo.keep(3)
    assert [kept.add(1), kept.add(2)] == [4, 6]
    assert ends.echo.is_kept(kept)
    (own,) = ends.target.kept
    assert own.value == 6
    kept.close()
    assert own.closed.is_set()
    with pytest.raises(ServingError):
        kept.add(1)
    with pytest.raises(ServingError):
        ends.echo.is_kept(kept)
    assert ends.echo.say(1) == [1]


def test_objects_are_closed_when_the_other_end_is_gone(ends: Ends) -> None:
    ends.echo.keep(1)
    ends.echo.keep(2).close()
    ends.here.close()
    for kept in ends.target.kept:
        assert kept.closed.wait(30)


def test_nobody_waits_for_a_call_without_an_answer(ends: Ends) -> None:
    wait = without_answer(ends.echo.wait)
    wait()
    assert ends.echo.say(1) == [1]
    ends.there.close()
    assert ends.gone[0].wait(30)
    wait()


def test_calls_of_an_end_that_is_gone_fail(ends: Ends) -> None:
    answer = begin(ends.echo.wait)
    ends.there.close()
    with pytest.raises(ServingError, match="stopping"):
        answer.result()
    assert ends.gone[0].wait(30)
    with pytest.raises(ServingError, match="stopping") as raised:
        ends.echo.say(1)
    assert raised.value.kind is ErrorKind.UNAVAILABLE


def test_only_public_methods_can_be_called(ends: Ends) -> None:
    answer = begin(ends.echo._private)
    with pytest.raises(ServingError, match="stopping"):
        answer.result()
    assert ends.gone[1].wait(30)


def test_what_is_here_is_asked_here(ends: Ends) -> None:
    class Here:
        def wait(self) -> str:
            return "here"

    both = ends.here.remote(Echo, Here())
    assert (both.wait(), both.say(1)) == ("here", [1])
