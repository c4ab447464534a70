"""Sessions end with their clients, whoever else has their end of the link."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.admin import ProcessAdmin
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal_tools.up import Testbed
from tests.support import gone_clients
from tests.support.waiting import wait_until

NAME = "soon gone"
HELLO = wire.LinkRequest(hello=wire.Hello(protocol_version=1, client_name=NAME)).SerializeToString()
PUT = wire.LinkRequest(put=wire.Put(count=1)).SerializeToString()
TAKEN, INVALID = ErrorStatus.NONE, ErrorStatus.INVALID_ARGUMENT


@dataclass(frozen=True)
class Server:
    """A process that serves, and its operator."""

    endpoint: Endpoint
    admin: ProcessAdmin

    def sessions(self) -> list[int]:
        """The processes of the clients' sessions."""
        return [session.pid for session in self.admin.process().sessions if session.client_name == NAME]


@pytest.fixture(scope="module")
def servers(testbed: Testbed) -> Iterator[dict[str, Server]]:
    """A device and a framework."""
    endpoints = {"device": testbed.endpoint("cpu_ref"), "framework": Endpoint(testbed.framework, "framework")}
    made = {name: Server(endpoint, ProcessAdmin(endpoint, testbed.admin_key)) for name, endpoint in endpoints.items()}
    yield made
    for server in made.values():
        server.admin.close()


def client(way: str, *servers: Server) -> subprocess.Popen[str]:
    """Start a client of one or two servers."""
    words = [way, HELLO.hex(), PUT.hex(), *(str(server.endpoint.link) for server in servers)]
    command = [sys.executable, "-I", "-S", str(Path(gone_clients.__file__)), *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def reply_in(line: str) -> wire.LinkReply:
    return wire.LinkReply.FromString(bytes.fromhex(line))


WAYS = [
    ("itself", INVALID, "connected to one, as links are"),
    ("crosswise", INVALID, "connected to one, as links are"),
    ("as_freight", INVALID, "other descriptors wait"),
    ("as_later_freight", TAKEN, ""),
    ("as_nested_freight", TAKEN, ""),
    ("as_crosswise_freight", TAKEN, ""),
    ("before_connecting", INVALID, "not connected"),
    ("by_listening", INVALID, "a socket with an address"),
]


@pytest.mark.parametrize(("first", "last"), [("device",) * 2, ("framework",) * 2, ("device", "framework")])
@pytest.mark.parametrize(("way", "status", "words"), WAYS, ids=[way for way, *_ in WAYS])
def test_a_session_ends_with_its_client_though_a_server_has_the_link(
    servers: dict[str, Server], way: str, status: ErrorStatus, words: str, first: str, last: str
) -> None:
    with client(way, servers[first], servers[last]) as process:
        replies = [reply_in(line) for line in process.communicate()[0].splitlines()]
    assert process.returncode == 0
    assert replies
    for reply in replies:
        assert ErrorStatus(reply.refusal.status) == status
        assert not reply.refusal.fatal
        assert words in reply.refusal.message
    for server in servers.values():
        wait_until(lambda s=server: not s.sessions(), "the sessions have ended")  # type: ignore[misc]


@pytest.mark.parametrize("name", ["device", "framework"])
def test_a_session_goes_on_with_a_fork_and_ends_with_it(servers: dict[str, Server], name: str) -> None:
    server = servers[name]
    with client("forks", server) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        process.wait()
        wait_until(lambda: server.sessions() == [fork], "the fork is the client")
        print(file=process.stdin, flush=True)
        assert reply_in(process.stdout.readline()).WhichOneof("reply") == "put"
        process.stdin.close()
        wait_until(lambda: not server.sessions(), "the session has ended")
