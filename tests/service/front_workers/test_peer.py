"""Calls between two processes, of which a test has both ends in one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.link import channel_pair
from nnhal.link.channel import channel_from
from nnhal.types import Ashmem, ErrorStatus
from nnhal_service.front_workers.peer import Peer, ServedInterface
from nnhal_service.runtime import OutputReport, OutputTooSmallError
from nnhal_service.serving import ErrorKind, ServingError


class Echo(Protocol):
    """The interface that both ends serve."""

    def say(self, value: object, *, times: int = 1) -> list[object]: ...

    def fail(self, error: Exception) -> None: ...

    def contents(self, memory: Ashmem) -> tuple[bytes, Sequence[Descriptor]]: ...

    def wait(self) -> None: ...

    def _private(self) -> None: ...


class Echoing:
    """Answers with what it is given."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def say(self, value: object, *, times: int = 1) -> list[object]:
        return [value] * times

    def fail(self, error: Exception) -> None:
        raise error

    def contents(self, memory: Ashmem) -> tuple[bytes, Sequence[Descriptor]]:
        return os.pread(memory.descriptor.fileno(), memory.size, 0), [memory.descriptor]

    def wait(self) -> None:
        assert self.go_on.wait(30)

    def _private(self) -> None:
        raise AssertionError("not for the other end")


class Ends:
    """Both ends."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        channel, theirs = channel_pair()
        self.target = Echoing()
        self.gone = [threading.Event(), threading.Event()]
        served: dict[type, ServedInterface] = {Echo: ServedInterface(self.target, executor)}
        self.here = Peer(channel, served, self.gone[0].set)
        self.there = Peer(channel_from(theirs), served, self.gone[1].set)
        self.here.start()
        self.there.start()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ThreadPoolExecutor(4) as executor:
        found = Ends(executor)
        yield found
        found.target.go_on.set()
        found.here.close()
        for gone in found.gone:
            assert gone.wait(30)


def test_either_end_calls_the_other(ends: Ends) -> None:
    assert ends.here.ask(Echo.say, "a", times=2) == ["a", "a"]
    assert ends.there.ask(Echo.say, {"b": 1}) == [{"b": 1}]


@pytest.mark.parametrize("size", [0, 60_000, 70_000, 5_000_000])
def test_messages_have_any_size(ends: Ends, size: int) -> None:
    assert ends.here.ask(Echo.say, b"x" * size) == [b"x" * size]


def test_memory_and_descriptors_pass(ends: Ends, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = Ashmem(Descriptor(os.open(path, os.O_RDONLY)), 7)
    contents, (descriptor,) = ends.here.ask(Echo.contents, memory)
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
        ends.here.ask(Echo.fail, error)
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)
    assert ends.here.ask(Echo.say, 1) == [1]


def test_a_defect_is_told_as_an_internal_error(ends: Ends) -> None:
    with pytest.raises(ServingError, match="the server failed") as raised:
        ends.here.ask(Echo.fail, KeyError("secret"))
    assert raised.value.kind is ErrorKind.INTERNAL


def test_calls_wait_for_none_of_one_another(ends: Ends) -> None:
    result = ends.here.begin(Echo.wait)
    assert ends.here.ask(Echo.say, 1) == [1]
    with pytest.raises(TimeoutError):
        result(0)
    ends.target.go_on.set()


def test_calls_of_an_end_that_is_gone_fail(ends: Ends) -> None:
    result = ends.here.begin(Echo.wait)
    ends.there.close()
    with pytest.raises(ServingError, match="stopping"):
        result(None)
    assert ends.gone[0].wait(30)
    with pytest.raises(ServingError, match="stopping") as raised:
        ends.here.ask(Echo.say, 1)
    assert raised.value.kind is ErrorKind.UNAVAILABLE


def test_only_public_methods_can_be_called(ends: Ends) -> None:
    result = ends.here.begin(Echo._private)
    with pytest.raises(ServingError, match="stopping"):
        result(None)
    assert ends.gone[1].wait(30)
