"""The sockets that a process has open."""

from __future__ import annotations

import socket

from nnhal_hosting.own_sockets import own_sockets


def test_own_sockets_are_seen_without_being_owned() -> None:
    with socket.socket(socket.AF_UNIX) as mine:
        seen = [end.family for end in own_sockets()]
        assert socket.AF_UNIX in seen
        assert mine.getsockname() == ""
