"""Users of this host who need no token at a port: known by who has opened the client's socket."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from nnhal_hosting.access import LocalUsers, TcpListener, peer_name
from tests.support.other_users import OTHER_USER, connection_of_other_user, needs_root

HOSTS = ["127.0.0.1", "::1", "127.8.8.8"]


def users_at(server: socket.socket, *uids: int, host: str = "") -> LocalUsers:
    own, port = server.getsockname()[:2]
    return LocalUsers(TcpListener(host or own, port), uids)


def server_at(host: str) -> socket.socket:
    """A socket that listens at any free port."""
    return TcpListener(host, 0).listen()


@pytest.mark.parametrize("host", HOSTS)
def test_the_user_who_runs_the_server_is_let_in(host: str) -> None:
    with server_at(host) as server, socket.create_connection(server.getsockname()[:2]) as client:
        assert users_at(server).objection(peer_name(client.getsockname()[:2])) == ""


def test_a_socket_of_ipv6_that_speaks_ipv4_is_its_users() -> None:
    with server_at("127.0.0.1") as server, socket.socket(socket.AF_INET6) as client:
        port = server.getsockname()[1]
        client.connect(("::ffff:127.0.0.1", port))
        assert users_at(server, host="localhost").objection(f"ipv4:127.0.0.1:{client.getsockname()[1]}") == ""


@needs_root
@pytest.mark.parametrize("host", HOSTS)
def test_another_user_is_refused_unless_allowed(host: str) -> None:
    with server_at(host) as server, connection_of_other_user(*server.getsockname()[:2]) as port:
        source = "127.0.0.1" if host == "127.8.8.8" else host
        peer = peer_name((source, port))
        said = users_at(server).objection(peer)
        assert f"user {OTHER_USER} of this host sent this request, expected user 0" in said
        assert "ALLOWED_UIDS" in said and "--tokens" in said
        assert users_at(server, OTHER_USER).objection(peer) == ""


def test_a_client_that_has_left_is_nobody_though_the_kernel_shows_its_socket_as_roots() -> None:
    with server_at("127.0.0.1") as server:
        with socket.create_connection(server.getsockname()) as client:
            peer = peer_name(client.getsockname())
            accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b""
            assert "does not say which user" in users_at(server).objection(peer)


def test_a_server_at_the_port_of_a_connection_that_is_gone_is_not_its_client() -> None:
    with server_at("127.0.0.1") as server, server_at("127.0.0.1") as other:
        assert "does not say which user" in users_at(server).objection(peer_name(other.getsockname()))


@pytest.mark.parametrize(
    "peer", ["", "ipv4:127.0.0.1:1", "ipv4:10.1.2.3:4000", "ipv6:%5B::1%5D:1", "vsock:1:2", "ipv4:x:1"]
)
def test_a_client_whose_user_cannot_be_seen_needs_a_token(peer: str) -> None:
    with server_at("127.0.0.1") as server:
        assert "needs a token" in users_at(server).objection(peer)


def test_a_process_that_may_not_ask_the_kernel_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    with server_at("127.0.0.1") as server, socket.create_connection(server.getsockname()) as client:
        monkeypatch.setattr("nnhal_hosting.access.local_users.SocketDiagnosis", refuse)
        assert "needs a token" in users_at(server).objection(peer_name(client.getsockname()))


@needs_root
def test_a_user_without_a_number_in_a_user_namespace_is_unknown() -> None:
    """The kernel shows all of them as one user, who may be one of the namespace."""
    program = """
import ctypes, os, socket
from nnhal_hosting.access import LocalUsers, TcpListener, peer_name
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
assert ctypes.CDLL(None).unshare(0x10000000) == 0, "no user namespaces"
users = LocalUsers(TcpListener(*server.getsockname()), [os.geteuid()])
print(os.geteuid(), users.objection(peer_name(client.getsockname())))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if "no user namespaces" in done.stderr:
        pytest.skip("this host has no user namespaces")
    assert done.stdout.startswith(f"{OTHER_USER} the kernel does not say which user"), done.stderr


def test_users_matter_only_at_ports_of_this_host_without_credentials() -> None:
    assert LocalUsers.of(TcpListener("127.0.0.1", 8000), shows_credentials=False) is not None
    assert LocalUsers.of(TcpListener("localhost", 8000), shows_credentials=False) is not None
    assert LocalUsers.of(TcpListener("127.0.0.1", 8000), shows_credentials=True) is None
    assert LocalUsers.of(TcpListener("0.0.0.0", 8000), shows_credentials=False) is None
