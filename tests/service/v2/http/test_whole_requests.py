"""Inferences that are served as a whole, without the application: the answers are the same, and in the same order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_hosting.access import LocalUsers, TcpListener
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.serving.requests.request import InferenceRequest
from tests.service.v2.http.conftest import Served, Server, serving
from tests.support.v2 import FakeModel, echo
from tests.support.waiting import wait_until

LONG = b"X-Long: " + b"x" * 4000 + b"\r\n"
"""Makes a head one that the application serves."""
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def head(length: int, *lines: bytes) -> bytes:
    """The head of a raw request with a body of so many bytes."""
    start = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
    return start + b"Content-Length: %d\r\n%s\r\n" % (length, b"".join(lines))


def whole(*numbers: float, lines: tuple[bytes, ...] = ()) -> bytes:
    """A raw request with these numbers."""
    body = np.array(numbers, np.float32).tobytes()
    return head(len(body), *lines) + body


class Connection:
    """A client's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.read = connection.makefile("rb")
        self.send = connection.sendall

    def answer(self) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """The next response: its first line, its headers without the date, and its body."""
        status = self.read.readline()
        headers = dict(line.strip().lower().split(b": ", 1) for line in iter(self.read.readline, b"\r\n"))
        assert headers.pop(b"date")
        return status, headers, self.read.read(int(headers[b"content-length"]))

    def numbers(self) -> list[float]:
        status, headers, body = self.answer()
        assert status == b"HTTP/1.1 200 OK\r\n"
        array = np.frombuffer(body[int(headers[b"inference-header-content-length"]) :], np.float32)
        return [float(number) for number in array]

    @property
    def has_ended(self) -> bool:
        """Return whether the server has closed the connection, and sent nothing more."""
        return self.read.read() == b""


@contextmanager
def connected(served: Served) -> Iterator[Connection]:
    url = served.client.base_url
    with closing(socket.create_connection((url.host, url.port), timeout=60)) as connection:
        client = Connection(connection)
        with client.read:
            yield client


@pytest.mark.parametrize(
    "request_of",
    [
        lambda lines: whole(1, 2, lines=lines),
        lambda lines: head(3, *lines) + b"abc",
        lambda lines: whole(1, lines=lines).replace(b"echo", b"unknown"),
        lambda lines: whole(1, lines=lines).replace(b"Length: 0", b"Length: 9"),
        lambda lines: whole(1, lines=lines).replace(b"Content-Length: 0", b"Content-Length: many"),
        lambda lines: whole(*range(1000), lines=(*lines, b"Accept-Encoding: gzip\r\n")),
    ],
)
def test_a_request_has_the_answer_that_the_application_gives(served: Served, request_of: object) -> None:
    assert callable(request_of)
    with connected(served) as connection:
        answers = []
        for lines in ((), (LONG,), ()):
            connection.send(request_of(lines))
            answers.append(connection.answer())
    assert answers[0] == answers[1] == answers[2]


def test_bodies_may_come_in_pieces_and_requests_of_all_kinds_on_one_connection(served: Served) -> None:
    with connected(served) as connection:
        for start in (1, 2):
            request = whole(start, 7)
            for byte in (request[: -8 + start], request[-8 + start : -2], request[-2:]):
                connection.send(byte)
            assert connection.numbers() == [start, 7]
            connection.send(LIVE)
            assert connection.answer()[0] == b"HTTP/1.1 200 OK\r\n"
            connection.send(whole(3) + whole(4) + LIVE + whole(5))  # more than one in a piece
            assert (connection.numbers(), connection.numbers()) == ([3], [4])
            assert connection.answer()[0] == b"HTTP/1.1 200 OK\r\n"
            assert connection.numbers() == [5]
            connection.send(head(8) + bytes(4))
            connection.send(bytes(4) + whole(6)[:20])  # the next one begins in the piece that ends this one
            assert connection.numbers() == [0, 0]
            connection.send(whole(6)[20:])
            assert connection.numbers() == [6]


def test_what_comes_while_a_request_runs_is_answered_after_it() -> None:
    running, go_on = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        running.set()
        assert go_on.wait(60)
        return echo(request)

    with serving(FakeModel(wait)) as served, connected(served) as connection:
        connection.send(whole(1))
        assert running.wait(60)
        connection.send(LIVE + whole(2))
        connection.send(whole(3))
        go_on.set()
        assert connection.numbers() == [1]
        assert connection.answer()[0] == b"HTTP/1.1 200 OK\r\n"
        assert (connection.numbers(), connection.numbers()) == ([2], [3])


def test_a_client_that_leaves_cancels_its_request() -> None:
    running, cancelled = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        request.cancellation.on_cancel(cancelled.set)
        running.set()
        assert cancelled.wait(60)
        return {}

    with serving(FakeModel(wait)) as served:
        with connected(served) as connection:
            connection.send(whole(1))
            assert running.wait(60)
        assert cancelled.wait(60)


def test_a_client_that_leaves_before_the_end_of_its_body_gives_its_bytes_back() -> None:
    budget = RequestMemoryBudget()
    with serving(FakeModel(), budget=budget) as served:
        with connected(served) as connection:
            connection.send(head(1000) + bytes(999))
            wait_until(lambda: budget.held == 1000, "the body is held")
        wait_until(lambda: budget.held == 0, "it is given back")


def test_a_server_that_ends_answers_first() -> None:
    running, go_on = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        running.set()
        assert go_on.wait(60)
        return echo(request)

    server = Server()
    with ExitStack() as stack:
        running_server = stack.enter_context(ExitStack())
        running_server.enter_context(server.http)
        served = stack.enter_context(serving(FakeModel(wait), server=server))
        connection = stack.enter_context(connected(served))
        connection.send(whole(1))
        assert running.wait(60)
        ends = threading.Thread(target=running_server.close)
        ends.start()
        go_on.set()
        assert connection.numbers() == [1]
        assert connection.has_ended
        ends.join(60)


class CountedUsers(LocalUsers):
    """Admits everybody, and counts how often the kernel would have been asked."""

    asked = 0

    def objection(self, peer: str) -> str:
        self.asked += 1
        return "" if self.asked < 3 else "nobody else"


def test_the_user_of_a_connection_is_asked_for_once() -> None:
    users = CountedUsers(TcpListener("127.0.0.1", 1))
    with serving(FakeModel(), Guard(users=users)) as served:
        for asked in (1, 2):
            with connected(served) as connection:
                for number in range(3):
                    connection.send(whole(number))
                    assert connection.numbers() == [number]
            assert users.asked == asked
        with connected(served) as connection:
            for _ in range(2):
                connection.send(whole(1))
                assert connection.answer()[0] == b"HTTP/1.1 403 Forbidden\r\n"
