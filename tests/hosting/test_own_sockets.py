"""The sockets that a process has open."""

from __future__ import annotations

import socket

import pytest

from nnhal_hosting.own_sockets import end_connection, own_sockets
from tests.support.waiting import SECONDS


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")])
def test_a_connection_is_ended_by_the_address_of_its_client(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        port = listener.getsockname()[1]
        clients = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(2)]
        served = [listener.accept()[0] for _ in clients]
        end_connection(f"ipv4:127.0.0.1:{clients[0].getsockname()[1]}")
        assert clients[0].recv(1) == b""
        served[1].sendall(b"x")
        assert clients[1].recv(1) == b"x"
        for end in (*clients, *served):
            end.close()


def test_other_peers_have_no_connection_to_end() -> None:
    for peer in ("", "unix:", "ipv4:127.0.0.1:x", "ipv6:%5B::1%5D:1"):
        end_connection(peer)


def test_own_sockets_are_seen_without_being_owned() -> None:
    with socket.socket(socket.AF_UNIX) as mine:
        seen = [end.family for end in own_sockets()]
        assert socket.AF_UNIX in seen
        assert mine.getsockname() == ""
