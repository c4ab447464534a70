"""Descriptors that may be put on a link."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.link import channel_pair
from nnhal.memory import create_ashmem
from nnhal.types import ErrorStatus
from nnhal_hosting.handed_over import ChannelEnds, require_usable
from tests.support.process_limits import apart, no_descriptors


def refused(descriptor: Descriptor, words: str, ends: ChannelEnds | None = None) -> None:
    with pytest.raises(HalError, match=words) as refusal:
        require_usable([descriptor], ends or ChannelEnds())
    assert refusal.value.message.startswith("the descriptor is ")
    assert "expected a file, shared memory, or an end of a pair of unix sockets" in refusal.value.message


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_ends_of_pairs_pass_whatever_has_become_of_the_other_end(kind: socket.SocketKind) -> None:
    for becomes in (lambda _: None, lambda ours: ours.send(b"x"), socket.socket.close):
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        becomes(ours)
        require_usable([Descriptor(theirs.detach())], ChannelEnds())
        ours.close()


def test_files_of_all_kinds_and_fences_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    names = [tmp_path / "file", tmp_path, Path("/dev/null")]
    files = [Descriptor(os.open(name, os.O_RDONLY)) for name in names]
    pipe = [Descriptor(number) for number in os.pipe()]
    _, fence = create_fence()
    _, bell = channel_pair()
    require_usable([*files, *pipe, create_ashmem(10).descriptor, fence.descriptor, bell], ChannelEnds())


def inet() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()).detach()


def datagrams() -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.close()
    return theirs.detach()


def an_epoll() -> int:
    with select.epoll() as made:
        return os.dup(made.fileno())


def listening() -> int:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen()
    return listener.detach()


def connected() -> int:
    with socket.socket(fileno=listening()) as listener:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(listener.getsockname())
    return connection.detach()


def accepted() -> int:
    with socket.socket(fileno=listening()) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.connect(listener.getsockname())
        return listener.accept()[0].detach()


def named_end_of_pair() -> int:
    ours, theirs = socket.socketpair()
    theirs.bind("")
    ours.close()
    return theirs.detach()


def with_descriptors() -> int:
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [0])
    ours.close()
    return theirs.detach()


def named_socket(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return os.open(path, os.O_PATH)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(inet, "with an address", id="a connection of TCP"),
        pytest.param(listening, "with an address", id="a listener"),
        pytest.param(connected, "connected to one, as links are", id="a connection"),
        pytest.param(accepted, "with an address", id="an accepted connection"),
        pytest.param(named_end_of_pair, "with an address", id="an end of a pair with a name"),
        pytest.param(with_descriptors, "in which other descriptors wait", id="an end with descriptors in it"),
        pytest.param(lambda: socket.socket(socket.AF_UNIX).detach(), "not connected", id="an unconnected socket"),
        pytest.param(lambda: socket.socket().detach(), "an address|not connected", id="an unconnected socket of TCP"),
        pytest.param(
            datagrams,
            "type SOCK_DGRAM, on which the end of the other side is not seen",
            id="datagrams",
        ),
        pytest.param(an_epoll, r"\(eventpoll\)", id="an epoll"),
        pytest.param(lambda: os.eventfd(0), r"\(eventfd\)", id="an event counter"),
        pytest.param(lambda: os.pidfd_open(os.getpid()), r"\(pidfd\)", id="a process"),
        pytest.param(lambda: os.open("/proc/self/ns/net", os.O_RDONLY), r"\(net\)", id="a namespace"),
    ],
)
def test_what_might_keep_a_link_open_is_refused_by_name(make: Callable[[], int], words: str) -> None:
    refused(Descriptor(make()), words)


def test_a_socket_that_was_opened_as_a_path_is_refused(short_path: Path) -> None:
    refused(Descriptor(named_socket(short_path / "socket")), "the path of a socket")


def test_the_other_end_of_a_channel_is_refused_while_there_is_the_channel() -> None:
    ends = ChannelEnds()
    channel, theirs = channel_pair()
    ends.add(channel, theirs)
    refused(theirs, "an end of a channel of this process", ends)
    refused(theirs.duplicate(), "an end of a channel of this process", ends)
    require_usable([channel_pair()[1]], ends)
    channel.close()
    del channel
    require_usable([theirs], ends)


def test_the_refusal_says_which_of_several_it_is() -> None:
    given = [Descriptor(os.memfd_create("a")), Descriptor(os.eventfd(0)), Descriptor(os.memfd_create("b"))]
    with pytest.raises(HalError, match=r"^INVALID_ARGUMENT: descriptor 2 of 3 is an object of the kernel"):
        require_usable(given, ChannelEnds())


def test_a_socket_that_cannot_be_looked_into_is_refused_for_now() -> None:
    """As without a free descriptor: links might wait in it."""
    apart(hand_over_without_descriptors)


def hand_over_without_descriptors() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        given = Descriptor(theirs.detach())
        with no_descriptors(), pytest.raises(HalError, match="a socket cannot be looked into") as refusal:
            require_usable([given], ChannelEnds())
        assert refusal.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        require_usable([given], ChannelEnds())
