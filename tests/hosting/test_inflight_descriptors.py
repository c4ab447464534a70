"""Descriptors that wait in sockets of a process."""

from __future__ import annotations

import os
import select
import socket

from nnhal_hosting.inflight_descriptors import InflightWatch


def is_closed_elsewhere(reader: int) -> bool:
    """Return whether the other end of a pipe is closed everywhere."""
    return bool(select.select([reader], [], [], 0)[0])


def test_descriptors_that_nobody_takes_are_dropped_the_second_time_they_are_seen() -> None:
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(b"plain")
        for _ in range(3):
            socket.send_fds(ours, [b"x"], [writer, writer])
        os.close(writer)
        watch = InflightWatch()
        watch.drop_stuck()
        assert not is_closed_elsewhere(reader)
        watch.drop_stuck()
        assert is_closed_elsewhere(reader)
        ours.send(b"later")
        watch.drop_stuck()
        assert theirs.recv(10) == b"later"
    os.close(reader)


def test_descriptors_that_are_taken_in_time_arrive() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    watch = InflightWatch()
    with ours, theirs:
        for _ in range(3):
            socket.send_fds(ours, [b"x"], [0])
            watch.drop_stuck()
            message, descriptors, _, _ = socket.recv_fds(theirs, 10, 2)
            assert message == b"x"
            os.close(*descriptors)
            watch.drop_stuck()
