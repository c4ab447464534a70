from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnhal.descriptor import Descriptor
from nnhal.link import Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.link.channel import (
    MAX_DESCRIPTORS_PER_MESSAGE,
    MAX_MESSAGE_BYTES,
    NothingReceivedError,
    channel_from,
    peer_credentials,
)

Pair = tuple[Channel, Channel]


def open_descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def inode(descriptor: Descriptor) -> int:
    return os.fstat(descriptor.fileno()).st_ino


def memfds(count: int) -> list[Descriptor]:
    return [Descriptor(os.memfd_create("test")) for _ in range(count)]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, descriptor = channel_pair()
    theirs = channel_from(descriptor)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def raw() -> Iterator[tuple[Channel, socket.socket]]:
    """Make a channel and the bare socket of a peer that obeys no rule."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


@pytest.mark.parametrize("size", [1, 1000, MAX_MESSAGE_BYTES])
def test_datagrams_arrive_whole_and_in_order(pair: Pair, size: int) -> None:
    ours, theirs = pair
    ours.send(b"a" * size)
    ours.send(b"b")
    assert theirs.receive() == b"a" * size
    assert theirs.receive() == b"b"
    assert not theirs.hung_up


def test_both_ends_count_the_bytes_that_went_over(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(b"123")
    ours.send(b"45", memfds(2))
    theirs.receive()
    theirs.receive_with_descriptors()
    theirs.send(b"6")
    ours.receive()
    assert (ours.traffic.sent, ours.traffic.received) == (5, 1)
    assert (theirs.traffic.sent, theirs.traffic.received) == (1, 5)


@pytest.mark.parametrize("size", [0, MAX_MESSAGE_BYTES + 1])
def test_a_message_that_is_empty_or_too_long_is_not_sent(pair: Pair, size: int) -> None:
    ours, theirs = pair
    with pytest.raises(ProtocolError, match=f"the message has {size} bytes, expected 1 to {MAX_MESSAGE_BYTES}"):
        ours.send(b"x" * size)
    ours.send(b"next")
    assert theirs.receive() == b"next"
    assert ours.traffic.sent == 4


def test_a_message_that_is_too_long_is_not_taken(raw: tuple[Channel, socket.socket]) -> None:
    channel, peer = raw
    peer.send(b"x" * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(ProtocolError, match="the message has more than 65536 bytes"):
        channel.receive()
    assert channel.traffic.received == 0


def test_an_empty_datagram_is_not_taken_for_the_end(raw: tuple[Channel, socket.socket]) -> None:
    channel, peer = raw
    peer.send(b"")
    with pytest.raises(ProtocolError, match="the message has 0 bytes"):
        channel.receive()
    peer.send(b"next")
    assert channel.receive() == b"next"


def test_the_last_answer_reaches_a_peer_whose_messages_were_not_all_read(raw: tuple[Channel, socket.socket]) -> None:
    channel, peer = raw
    for _ in range(3):
        peer.send(b"call")
    channel.receive()
    channel.send(b"last words")
    channel.close()
    assert peer.recv(100) == b"last words"
    assert peer.recv(100) == b""


def test_descriptors_arrive_as_the_same_files(pair: Pair) -> None:
    ours, theirs = pair
    sent = memfds(MAX_DESCRIPTORS_PER_MESSAGE)
    ours.send(b"take", sent)
    message, received = theirs.receive_with_descriptors()
    assert message == b"take"
    assert [inode(descriptor) for descriptor in received] == [inode(descriptor) for descriptor in sent]
    assert not any(os.get_inheritable(descriptor.fileno()) for descriptor in received)


def test_more_descriptors_than_a_message_may_carry_are_not_sent(pair: Pair) -> None:
    ours, _ = pair
    with pytest.raises(ProtocolError, match="the message has 17 descriptors, expected at most 16"):
        ours.send(b"take", memfds(17))


def test_more_descriptors_than_a_message_may_carry_are_refused_and_closed(raw: tuple[Channel, socket.socket]) -> None:
    channel, peer = raw
    sent = memfds(MAX_DESCRIPTORS_PER_MESSAGE + 1)
    before = open_descriptors()
    socket.send_fds(peer, [b"take"], [descriptor.fileno() for descriptor in sent])
    with pytest.raises(ProtocolError, match="more than 16 descriptors"):
        channel.receive_with_descriptors()
    assert open_descriptors() == before


def test_unexpected_descriptors_are_closed(pair: Pair) -> None:
    ours, theirs = pair
    sent = memfds(3)
    before = open_descriptors()
    ours.send(b"message", sent)
    assert theirs.receive() == b"message"
    assert open_descriptors() == before


def test_descriptors_that_are_let_go_of_are_closed(pair: Pair) -> None:
    ours, theirs = pair
    sent = memfds(3)
    before = open_descriptors()
    ours.send(b"message", sent)
    _, received = theirs.receive_with_descriptors()
    assert open_descriptors() == before + 3
    received.clear()
    assert open_descriptors() == before


def test_a_peer_that_closes_ends_the_channel_once_what_it_sent_is_read(pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(b"last words")
    theirs.close()
    assert ours.hung_up
    assert ours.receive() == b"last words"
    with pytest.raises(ChannelClosedError, match="the other side has closed"):
        ours.receive()
    with pytest.raises(ChannelClosedError, match="the other side has closed"):
        ours.receive_with_descriptors()
    with pytest.raises(ChannelClosedError, match="Broken pipe"):
        ours.send(b"x")


def test_closing_is_final_and_may_be_repeated(pair: Pair) -> None:
    ours, theirs = pair
    ours.close()
    ours.close()
    assert ours.fileno() == -1
    assert ours.hung_up
    assert theirs.hung_up
    with pytest.raises(ChannelClosedError, match="Bad file descriptor"):
        ours.send(b"x")
    with pytest.raises(ChannelClosedError, match="Bad file descriptor"):
        ours.receive()


def test_a_channel_that_another_thread_closes_while_it_is_looked_at_has_hung_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = pair
    numbers = iter([ours.fileno()])
    with monkeypatch.context() as patch:
        patch.setattr(ours, "_socket", SimpleNamespace(fileno=lambda: next(numbers, -1)))
        seen = [ours.hung_up, ours.hung_up, ours.wait(0)]
    assert seen[1:] == [True, True]


def test_a_channel_that_is_let_go_of_is_closed() -> None:
    before = open_descriptors()
    ours, descriptor = channel_pair()
    theirs = channel_from(descriptor)
    del ours, descriptor
    with pytest.raises(ChannelClosedError):
        theirs.receive()
    del theirs
    assert open_descriptors() == before


def test_what_takes_longer_than_allowed_is_an_error(pair: Pair) -> None:
    ours, _ = pair
    ours.set_timeout(0.001)
    with pytest.raises(ChannelClosedError, match="timed out"):
        ours.receive()


def test_receiving_may_be_bounded_and_go_on(pair: Pair) -> None:
    ours, theirs = pair
    ours.wait_at_most(0.001)
    with pytest.raises(NothingReceivedError):
        ours.receive()
    theirs.send(b"late")
    assert ours.receive() == b"late"


def test_the_peer_is_known_by_process_and_user(raw: tuple[Channel, socket.socket]) -> None:
    channel, peer = raw
    assert channel.peer_pid == os.getpid()
    assert peer_credentials(peer) == (os.getpid(), os.getuid())


def test_sending_at_once_does_not_wait_for_a_receiver_that_does_not_read(pair: Pair) -> None:
    ours, theirs = pair
    ours.send_at_once(b"first")
    assert theirs.receive() == b"first"
    with pytest.raises(ChannelClosedError, match="the channel is closed"):
        for _ in range(100_000):
            ours.send_at_once(b"more")
    assert theirs.receive() == b"more"
