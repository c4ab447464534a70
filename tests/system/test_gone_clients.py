"""Sessions end with their clients, whoever else has their end of the link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.admin import ProcessAdmin
from nnhal.types import ErrorStatus
from nnhal_tools.up import Testbed
from tests.support.leavers import NAME, leaver, reply_in
from tests.support.waiting import wait_until

TAKEN, INVALID = ErrorStatus.NONE, ErrorStatus.INVALID_ARGUMENT


@dataclass(frozen=True)
class Server:
    """A process that serves, and its operator."""

    endpoint: Endpoint
    admin: ProcessAdmin

    def sessions(self) -> list[int]:
        return [session.pid for session in self.admin.process().sessions if session.client_name == NAME]


@pytest.fixture(scope="module")
def servers(testbed: Testbed) -> Iterator[dict[str, Server]]:
    endpoints = {"device": testbed.endpoint("cpu_ref"), "framework": Endpoint(testbed.framework, "framework")}
    made = {name: Server(endpoint, ProcessAdmin(endpoint, testbed.admin_key)) for name, endpoint in endpoints.items()}
    yield made
    for server in made.values():
        server.admin.close()


WAYS = [
    ("itself", INVALID, "connected to one, as links are"),
    ("crosswise", INVALID, "connected to one, as links are"),
    ("as_carried", INVALID, "other descriptors wait"),
    ("as_later_carried", TAKEN, ""),
    ("as_nested_carried", TAKEN, ""),
    ("as_crosswise_carried", TAKEN, ""),
    ("before_connecting", INVALID, "not connected"),
    ("by_listening", INVALID, "a socket with an address"),
    ("as_datagrams", INVALID, "SOCK_DGRAM, on which the end of the other side is not seen"),
]


@pytest.mark.parametrize(("first", "last"), [("device",) * 2, ("framework",) * 2, ("device", "framework")])
@pytest.mark.parametrize(("way", "status", "words"), WAYS, ids=[way for way, *_ in WAYS])
def test_a_session_ends_with_its_client_though_a_server_has_the_link(
    servers: dict[str, Server], way: str, status: ErrorStatus, words: str, first: str, last: str
) -> None:
    with leaver(way, servers[first].endpoint.link, servers[last].endpoint.link) as process:
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
    with leaver("forks", server.endpoint.link) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        process.wait()
        wait_until(lambda: server.sessions() == [fork], "the fork is the client")
        print(file=process.stdin, flush=True)
        assert reply_in(process.stdout.readline()).WhichOneof("reply") == "put"
        process.stdin.close()
        wait_until(lambda: not server.sessions(), "the session has ended")
