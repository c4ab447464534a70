from __future__ import annotations

import socket
from contextlib import closing

import pytest

from nnhal_hosting.access import TcpListener
from nnhal_service.front_workers.ports import SharedPort


def listening(port: int, shared: bool) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), reuse_port=shared)


def test_several_listen_at_a_shared_port() -> None:
    with SharedPort(TcpListener("127.0.0.1", 0)) as kept:
        port = kept.listener.port
        assert port > 0
        with closing(listening(port, True)) as first, closing(listening(port, True)) as second:
            for _ in range(20):  # the kernel chooses by a hash, and never the socket that only keeps the port
                with socket.create_connection(("127.0.0.1", port)):
                    pass
            assert {first.getsockname(), second.getsockname()} == {("127.0.0.1", port)}
            with pytest.raises(OSError, match="in use"):
                listening(port, False)


@pytest.mark.parametrize("shared", [False, True])
def test_the_port_of_another_server_is_refused(shared: bool) -> None:
    with closing(listening(0, shared)) as other, pytest.raises(OSError, match="in use"):
        SharedPort(TcpListener("127.0.0.1", other.getsockname()[1]))


def test_a_port_is_free_when_it_is_kept_no_longer() -> None:
    with SharedPort(TcpListener("127.0.0.1", 0)) as kept:
        pass
    listening(kept.listener.port, False).close()


def test_ipv6() -> None:
    with SharedPort(TcpListener("::1", 0)) as kept:
        assert kept.listener.address == f"[::1]:{kept.listener.port}"
