"""Connections of HTTP/2: clients that flood, stall, read nothing or are too many, and the server's end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import ngh2
import pytest

from nnhal_hosting.access import Tls
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http2 import Http2Listeners, Stream, WaitingStreams
from tests.support.certificates import authority, signed
from tests.support.http2_client import Http2Client, http2_client
from tests.support.raw_http2 import PREFACE, connected, frame, headers_of, opened
from tests.support.serving import shared_loop
from tests.support.waiting import SECONDS

LIMITS = ConnectionLimits(stalled_seconds=0.5, idle_seconds=60, head_bytes=4096, headers=24)
LARGE = bytes(8 << 20)
HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9


class Echo:
    """Answers a request with its bytes: at its end, or at ``/large`` at once with more than the network takes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._data = stream.first
        if dict(stream.headers)[b":path"] == b"/large":
            stream.respond(((b":status", b"200"),))
            stream.send(LARGE)
            stream.end(())
            stream.flush()
        elif dict(stream.headers)[b":path"] == b"/waits":
            self._task = asyncio.get_running_loop().create_task(self._answer_in_parts())
        elif stream.is_whole:
            self._answer()
        else:
            stream.take(len(stream.first))

    def receive(self, data: bytes, is_last: bool) -> None:
        self._data += data
        self._stream.take(len(data))
        if is_last:
            self._answer()

    def give_up(self, why: str) -> None:
        self._stream.reset()

    def close(self) -> None:
        pass

    async def _answer_in_parts(self) -> None:
        self._stream.respond(((b":status", b"200"),))
        for part in (bytes(1 << 17), b"taken"):
            self._stream.send(part)
            self._stream.flush()
            await self._stream.drained()
        self._stream.end(())
        self._stream.flush()

    def _answer(self) -> None:
        self._stream.respond(((b":status", b"200"),))
        self._stream.send(self._data)
        self._stream.end(((b"grpc-status", b"0"),))
        self._stream.flush()


@contextmanager
def serving(limits: ConnectionLimits = LIMITS, tls: ssl.SSLContext | None = None, grace: float = 0) -> Iterator[str]:
    """The address of a server that echoes."""
    loop = shared_loop()
    bound = socket.create_server(("127.0.0.1", 0))
    waiting = WaitingStreams(100, limits.stalled_seconds)
    server = Http2Listeners([bound], limits, 10, waiting, lambda stream: setattr(stream, "user", Echo(stream)), tls)
    address = f"127.0.0.1:{bound.getsockname()[1]}"
    loop.run(server.start())
    try:
        yield address
    finally:
        loop.run(server.stop(grace))


def echoed(client: Http2Client, data: bytes) -> bytes:
    return client.answer(client.request(b"/", data=data)).data


def test_requests_are_answered_on_one_connection() -> None:
    with serving() as address, http2_client(address) as client:
        for size in (0, 1, 1 << 16, 1 << 20):
            assert echoed(client, bytes(size)) == bytes(size)
        streams = [client.request(b"/", data=b"%d" % number) for number in range(5)]
        assert [client.answer(stream).data for stream in streams] == [b"0", b"1", b"2", b"3", b"4"]


USUAL = headers_of(b"/")
FLOODS: dict[str, list[bytes]] = {
    "RST_STREAM": [opened(n, *USUAL, data=b"") + frame(RST_STREAM, 0, n, bytes(4)) for n in range(1, 9001, 2)],
    "PING": [frame(PING, 0, 0, bytes(8))] * 200_000,
    "SETTINGS": [frame(SETTINGS, 0, 0)] * 400_000,
    "CONTINUATION": [frame(HEADERS, 0, 1), *[frame(CONTINUATION, 0, 1, b"\0\x01a\x01b")] * 200],
    "headers": [opened(1, *USUAL, *[(b"a%d" % number, b"b") for number in range(100)])],
    "garbage": [b"\xff" * 1000],
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_connection_and_no_other(name: str) -> None:
    with serving() as address, http2_client(address) as other:
        assert echoed(other, b"before") == b"before"
        with connected(address) as flooding:
            flooding.settimeout(SECONDS)
            try:
                flooding.sendall(b"".join(FLOODS[name]))
                while flooding.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
        assert echoed(other, b"after") == b"after"


def test_a_head_that_is_too_long_is_not_served() -> None:
    with serving() as address, http2_client(address) as client:
        stream = client.request(b"/", (b"a", b"x" * 3000), (b"b", b"x" * 3000))
        with pytest.raises((ConnectionError, KeyError, AssertionError)):
            assert client.answer(stream).headers[b":status"] != b"200"


@pytest.mark.parametrize("sent", [b"", PREFACE[:10]])
def test_who_does_not_greet_is_closed(sent: bytes) -> None:
    with serving() as address:
        host, _, port = address.rpartition(":")
        with closing(socket.create_connection((host, int(port)), SECONDS)) as silent:
            silent.sendall(sent)
            while silent.recv(1 << 16):
                pass


def test_a_connection_without_requests_is_closed_with_a_notice() -> None:
    with serving(ConnectionLimits(stalled_seconds=60, idle_seconds=0.5)) as address, http2_client(address) as client:
        assert echoed(client, b"x") == b"x"
        assert client.is_closed()
        assert client.goaway is not None
        assert (client.goaway.error_code, client.goaway.last_stream_id) == (0, 1)


def test_one_connection_too_many_is_closed() -> None:
    limits = ConnectionLimits(connections=1)
    with serving(limits) as address, http2_client(address) as first:
        assert echoed(first, b"x") == b"x"
        with http2_client(address) as second:
            assert second.is_closed()
        assert echoed(first, b"y") == b"y"


def test_who_reads_nothing_is_closed() -> None:
    with serving() as address, connected(address, window=len(LARGE)) as deaf:
        deaf.sendall(frame(8, 0, 0, (1 << 30).to_bytes(4)) + opened(1, *headers_of(b"/large")))
        with http2_client(address) as other:
            while True:  # the server ends the connection, which the client notices when it writes
                assert echoed(other, b"x") == b"x"
                try:
                    deaf.sendall(frame(PING, 0, 0, bytes(8)))
                except ConnectionError:
                    return


def test_who_reads_slowly_gets_all() -> None:
    with serving() as address, http2_client(address, window=1 << 14) as client:
        assert client.answer(client.request(b"/large", data=None)).data == LARGE


def test_who_waits_for_an_answer_to_be_taken_goes_on_when_it_is() -> None:
    with serving(ConnectionLimits()) as address, http2_client(address, window=1 << 16) as client:
        answered = client.answer(client.request(b"/waits", data=None))
        assert answered.data == bytes(1 << 17) + b"taken"


def test_a_stream_that_is_not_taken_is_reset() -> None:
    with serving() as address, http2_client(address, window=0) as client:
        answered = client.answer(client.request(b"/large", data=None))
        assert answered.reset == ngh2.ErrorCode.ENHANCE_YOUR_CALM


def test_who_is_served_when_the_server_ends_is_told_so_and_answered() -> None:
    with ThreadPoolExecutor(1) as executor:
        with serving(ConnectionLimits(), grace=SECONDS) as address:
            client = executor.submit(asked_in_halves, address)
            client_is_served.acquire()
        assert client.result() == b"half whole"


client_is_served = threading.Semaphore(0)


def asked_in_halves(address: str) -> bytes:
    """Send half of a request, and the rest when the server tells that it ends."""
    with http2_client(address) as client:
        stream = client.request(b"/", data=b"half", is_whole=False)
        assert echoed(client, b"x") == b"x"
        client_is_served.release()
        while client.goaway is None:
            assert client.receive()
        client.send(stream, b" whole", is_whole=True)
        return client.answer(stream).data


@pytest.mark.parametrize(("protocols", "is_served"), [(["h2"], True), (["http/1.1"], False), ([], False)])
def test_tls_is_for_who_speaks_http2(tmp_path: Path, protocols: Sequence[str], is_served: bool) -> None:
    pair = signed(tmp_path, "server", authority(tmp_path, "issuer"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    with serving(tls=Tls(pair.certificate, pair.key).ssl_context()) as address:
        host, _, port = address.rpartition(":")
        with closing(socket.create_connection((host, int(port)), SECONDS)) as plain:
            try:
                with context.wrap_socket(plain) as secured:
                    client = Http2Client(secured)
                    assert echoed(client, b"x") == b"x"
                    assert is_served
            except OSError:  # an error of TLS, or the end of the connection
                assert not is_served
