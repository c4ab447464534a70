"""Channels of one poller: clients that work long, flood, stall, die or send garbage cost the others nothing."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from nnhal.link import Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.link.channel import channel_from
from nnhal_hosting.polling import Poller, Work
from tests.support.resources import resources_of, threads_of
from tests.support.waiting import wait_until

BRIEF, LONG, DECEPTIVE, CLOSING, GARBAGE, DEFECT, CLOSED = (
    b"brief",
    b"long",
    b"deceptive",
    b"closing",
    b"garbage",
    b"defect",
    b"closed",
)
MANY = 200
ROW = 100
"""So many calls of one channel in a row have a thread attend to it."""
BEHIND_LONG_WORK = 8
"""Threads that a poller may have besides those that do long work: leader, spares, watch, and those that are ending."""


@dataclass
class Job:
    """Work on a message, which it sends back. Long and deceptive work ends when the test lets it.

    Closing work is deceptive, and closes its channel first.
    """

    server: Server
    message: bytes

    @property
    def is_brief(self) -> bool:
        return self.message != LONG

    def run(self) -> None:
        if self.message == DEFECT:
            raise ZeroDivisionError
        if self.message == CLOSING:
            self.server.channel.close()
        if self.message in (LONG, DECEPTIVE, CLOSING):
            self.server.begun.put(self.message)
            assert self.server.release.wait(30)
        self.server.threads.add(threading.current_thread().name)
        self.server.channel.send(self.message)


@dataclass
class Server:
    """The serving end of a channel."""

    channel: Channel
    client: Channel
    release: threading.Event = field(default_factory=threading.Event)
    begun: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)
    ends: queue.SimpleQueue[BaseException] = field(default_factory=queue.SimpleQueue)
    threads: set[str] = field(default_factory=set)
    answers_at_once: bool = False
    closes: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.closes.set()

    def exchange(self) -> Work | None:
        message = self.channel.receive()
        if self.answers_at_once:
            self.channel.send(message)
            return None
        if message == GARBAGE:
            raise ProtocolError("garbage")
        if message == CLOSED:
            self.channel.close()
            raise ProtocolError("closed")
        return Job(self, message)

    def ended(self, error: BaseException) -> None:
        self.begun.put(b"end")
        assert self.closes.wait(30)
        self.channel.close()
        self.ends.put(error)

    def echo(self, message: bytes = BRIEF) -> None:
        """Have a message echoed, as the client."""
        self.client.send(message)
        assert self.client.receive() == message

    def end(self) -> BaseException:
        return self.ends.get(timeout=30)


Serve = Callable[..., Server]


def channels() -> tuple[Channel, Channel]:
    ours, theirs = channel_pair()
    return ours, channel_from(theirs)


@pytest.fixture(params=[0, 100_000], ids=["sleeps", "spins"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Return what serves one more channel of the same poller. Afterwards all threads have ended."""
    poller, servers = Poller(request.param), list[Server]()

    def add(in_turn: bool = True) -> Server:
        server = Server(*channels())
        poller.add(server.channel, server.exchange, server.ended, in_turn)
        servers.append(server)
        return server

    yield add
    for server in servers:
        server.release.set()
        server.client.close()
    wait_until(lambda: not any(t.name.startswith("poller") for t in threading.enumerate()), "the threads have ended")


def test_long_work_delays_no_other_channel(serve: Serve) -> None:
    busy, other = [serve() for _ in range(5)], serve()
    for server in busy:
        server.client.send(LONG)
        server.begun.get(timeout=30)
        other.echo()
    for server in busy:
        server.release.set()
        assert server.client.receive() == LONG
        server.echo()


def test_work_that_is_long_unexpectedly_delays_other_channels_for_a_moment_only(serve: Serve) -> None:
    deceptive, other = serve(), serve()
    other.echo()
    for _ in range(3):
        deceptive.release.clear()
        deceptive.client.send(DECEPTIVE)
        deceptive.begun.get(timeout=30)
        other.echo()
        deceptive.release.set()
        assert deceptive.client.receive() == DECEPTIVE
        deceptive.echo()


def test_calls_that_take_turns_wait_for_the_work_before(serve: Serve) -> None:
    server = serve(in_turn=True)
    server.client.send(LONG)
    server.begun.get(timeout=30)
    server.client.send(BRIEF)
    server.release.set()
    assert [server.client.receive(), server.client.receive()] == [LONG, BRIEF]


def test_other_calls_are_taken_while_work_is_done(serve: Serve) -> None:
    server = serve(in_turn=False)
    for _ in range(4):
        server.client.send(LONG)
        server.begun.get(timeout=30)
    server.echo()
    server.release.set()
    assert [server.client.receive() for _ in range(4)] == [LONG] * 4


@pytest.mark.parametrize("answers_at_once", [True, False])
@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "overlapping"])
def test_a_client_that_reads_no_answers_is_served_no_further_and_nobody_else_waits(
    serve: Serve, in_turn: bool, answers_at_once: bool
) -> None:
    stalled, other = serve(in_turn), serve()
    stalled.answers_at_once = answers_at_once
    stalled.client.defer_sends()
    sent = 0
    while not stalled.client.has_unsent:
        stalled.client.send(BRIEF + b" %d" % sent)
        sent += 1
        other.echo()
    answers: list[bytes] = []
    while len(answers) < sent:
        stalled.client.flush()
        answers.append(stalled.client.receive())
    assert answers == [BRIEF + b" %d" % number for number in range(sent)]
    stalled.echo()


def test_a_client_that_stalls_and_dies_is_forgotten(serve: Serve) -> None:
    stalled, other = serve(), serve()
    stalled.client.defer_sends()
    while not stalled.client.has_unsent:
        stalled.client.send(BRIEF)
    stalled.client.close()
    assert isinstance(stalled.end(), ChannelClosedError)
    other.echo()


@pytest.mark.parametrize(("message", "error"), [(GARBAGE, ProtocolError), (DEFECT, ZeroDivisionError)])
@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "overlapping"])
def test_what_is_raised_ends_the_channel_once(
    serve: Serve, message: bytes, error: type[Exception], in_turn: bool
) -> None:
    bad, other = serve(in_turn), serve()
    bad.client.send(message)
    assert isinstance(bad.end(), error)
    with pytest.raises(ChannelClosedError):
        bad.client.receive()
    other.echo()
    assert bad.ends.empty()


def test_a_channel_may_close_while_its_work_is_done(serve: Serve) -> None:
    busy, other = serve(), serve()
    busy.client.send(LONG)
    busy.begun.get(timeout=30)
    busy.client.close()
    other.echo()
    busy.release.set()
    assert isinstance(busy.end(), ChannelClosedError)
    other.echo()


def test_the_end_of_a_channel_delays_no_other_channel(serve: Serve) -> None:
    slow, other = serve(), serve()
    slow.closes.clear()
    slow.client.close()
    slow.begun.get(timeout=30)
    other.echo()
    slow.closes.set()
    slow.end()


def test_many_channels_have_few_threads_and_each_its_answers(serve: Serve) -> None:
    before = threads_of(os.getpid())
    servers = [serve() for _ in range(MANY)]
    for _ in range(3):
        for server in servers:
            server.client.send(BRIEF)
        for server in servers:
            assert server.client.receive() == BRIEF
    assert threads_of(os.getpid()) <= before + BEHIND_LONG_WORK
    assert len(set().union(*(server.threads for server in servers))) <= BEHIND_LONG_WORK


def test_threads_of_long_work_end_when_it_has_ended(serve: Serve) -> None:
    before = threads_of(os.getpid())
    servers = [serve() for _ in range(30)]
    for server in servers:
        server.client.send(LONG)
        server.begun.get(timeout=30)
    for server in servers:
        server.release.set()
        assert server.client.receive() == LONG
    wait_until(lambda: threads_of(os.getpid()) <= before + BEHIND_LONG_WORK, "the threads have ended")


def test_nothing_is_left_without_channels() -> None:
    def descriptors() -> int:
        return sum(resources_of(os.getpid()).descriptors.values())

    before, threads = descriptors(), threads_of(os.getpid())
    poller = Poller()
    for _ in range(30):
        server = Server(*channels())
        poller.add(server.channel, server.exchange, server.ended)
        server.echo()
        server.client.close()
        server.end()
    wait_until(lambda: descriptors() <= before and threads_of(os.getpid()) <= threads, "all is released")


def test_a_channel_that_is_closed_already_is_refused() -> None:
    server = Server(*channels())
    server.channel.close()
    poller = Poller()
    with pytest.raises(OSError, match="the channel is closed"):
        poller.add(server.channel, server.exchange, server.ended)
    assert server.ends.empty()


@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "overlapping"])
def test_without_further_threads_the_channels_wait_for_one_another(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, in_turn: bool
) -> None:
    busy, other = serve(in_turn), serve()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError(f"no thread {thread.name}")

    busy.echo()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        busy.client.send(LONG)
        busy.begun.get(timeout=30)
        other.client.send(BRIEF)
        busy.release.set()
        assert busy.client.receive() == LONG
        assert other.client.receive() == BRIEF
        busy.echo(LONG)
        other.echo()


def test_a_channel_that_its_owner_closes_while_it_is_served_costs_the_others_nothing(serve: Serve) -> None:
    closed, other = serve(), serve()
    closed.client.send(CLOSED)
    assert str(closed.end()) == "closed"
    other.echo()


def test_a_channel_that_its_owner_closes_during_long_work_costs_the_others_nothing(serve: Serve) -> None:
    closing, other = serve(), serve()
    for _ in range(2):
        closing.client.send(CLOSING)
        closing.begun.get(timeout=30)
        other.echo()
        closing.release.set()
        assert isinstance(closing.end(), ChannelClosedError)
        other.echo()
        closing = serve()


def in_a_row(server: Server) -> None:
    for _ in range(ROW):
        server.echo()


def test_calls_in_a_row_delay_no_other_channel(serve: Serve) -> None:
    regular, other = serve(), serve()
    for _ in range(3):
        in_a_row(regular)
        other.echo()
        in_a_row(other)
        for _ in range(ROW):
            regular.echo()
            other.echo()


@pytest.mark.parametrize("message", [LONG, DECEPTIVE])
def test_long_work_after_calls_in_a_row_delays_no_other_channel(serve: Serve, message: bytes) -> None:
    regular, other = serve(), serve()
    in_a_row(regular)
    regular.client.send(message)
    regular.begun.get(timeout=30)
    in_a_row(other)
    regular.release.set()
    assert regular.client.receive() == message
    in_a_row(regular)


@pytest.mark.parametrize(
    ("message", "error"),
    [(GARBAGE, ProtocolError), (DEFECT, ZeroDivisionError), (CLOSED, ProtocolError)],
    ids=["garbage", "a defect", "closed"],
)
def test_what_is_raised_after_calls_in_a_row_ends_the_channel_once(
    serve: Serve, message: bytes, error: type[Exception]
) -> None:
    regular, other = serve(), serve()
    in_a_row(regular)
    regular.client.send(message)
    assert isinstance(regular.end(), error)
    in_a_row(other)
    other.client.close()
    assert isinstance(other.end(), ChannelClosedError)
    assert regular.ends.empty()


def test_a_client_that_reads_no_answers_after_calls_in_a_row_delays_nobody_and_gets_them_all(serve: Serve) -> None:
    regular, other = serve(), serve()
    in_a_row(regular)
    regular.client.defer_sends()
    sent = 0
    while not regular.client.has_unsent:
        regular.client.send(BRIEF)
        sent += 1
    in_a_row(other)
    while sent:
        assert regular.client.receive() == BRIEF
        sent -= 1
        regular.client.flush()
    regular.echo()
