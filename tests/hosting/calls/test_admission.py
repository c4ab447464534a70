"""Calls of a server whose clients do not take their answers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import grpc
import pytest

from nnhal_hosting.calls import CallAdmission, CallLimits
from tests.support.raw_http2 import answer, connected, headers_of, opened
from tests.support.waiting import SECONDS

ANSWER = bytes(600 << 10)
SETTINGS, MAX_CONCURRENT_STREAMS = 4, 3
NO_MESSAGE = bytes(5)
"""A message without bytes, behind its prefix."""


LIMITS = CallLimits(memory_bytes=1 << 20, connection_calls=3)


@pytest.fixture
def address() -> Iterator[str]:
    """A server whose answers may take a MiB together."""
    admission = CallAdmission(LIMITS, "session")
    server = grpc.server(ThreadPoolExecutor(1), interceptors=[admission], options=LIMITS.options)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda _, __: ANSWER)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", {"Ask": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()
    admission.close()


def test_clients_are_told_how_many_calls_a_connection_may_have(address: str) -> None:
    with closing(connected(address)) as client, client.makefile("rb") as received:
        head = received.read(9)
        settings = received.read(int.from_bytes(head[:3]))
        assert head[3] == SETTINGS
        assert (MAX_CONCURRENT_STREAMS, 3) in struct.iter_unpack(">HI", settings)


def test_the_oldest_answer_that_its_client_does_not_take_is_ended(address: str) -> None:
    with closing(connected(address, window=0)) as hoarder:
        for stream in (1, 3):
            hoarder.sendall(opened(stream, *headers_of(b"/a.Service/Ask"), data=NO_MESSAGE))
        answer(hoarder, 1)  # it is reset, since the second one exceeds the limit
    with grpc.insecure_channel(address) as channel:
        for _ in range(4):
            assert channel.unary_unary("/a.Service/Ask", None, None)(b"", timeout=SECONDS) == ANSWER
