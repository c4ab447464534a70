"""Calls that no client of gRPC sends, and clients that stall: each call ends alone, and nobody else notices."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.v2.grpc import GrpcLimits
from nnhal_service.v2.grpc.statuses import STATUS
from tests.support.http2_client import NO_MESSAGE, Answered, http2_client, message
from tests.support.idle_calls import half_sent, idle_calls, is_healthy
from tests.support.raw_http2 import Header
from tests.support.v2 import FakeModel, infer, raw_request
from tests.support.v2_front import Served, serving
from tests.support.waiting import wait_until

MEBIBYTE = 1 << 20
INFER = b"/inference.GRPCInferenceService/ModelInfer"
STREAM = b"/inference.GRPCInferenceService/ModelStreamInfer"
LIVE = b"/inference.GRPCInferenceService/ServerLive"
METADATA = b"/inference.GRPCInferenceService/ServerMetadata"
UNKNOWN_PATHS = {
    "not UTF-8": b"/\xff",
    "not UTF-8 in a known service": INFER + b"\xc3",
    "UTF-8 that is no method": "/é/☃".encode(),
    "a surrogate": b"/\xed\xa0\x80",
    "an unknown method": b"/inference.GRPCInferenceService/Nothing",
}
MALFORMED_PATHS = {"NUL": b"/\0", "no slash": b"ModelInfer"}
REQUEST = raw_request(x=np.zeros(3, np.float32))
HASTY = GrpcLimits(stalled_seconds=0.5)


def code_of(answered: Answered) -> grpc.StatusCode:
    return next(code for code in grpc.StatusCode if code.value[0] == answered.status)


def address(served: Served) -> str:
    return served.front.addresses[0]


@pytest.mark.parametrize("path", UNKNOWN_PATHS.values(), ids=UNKNOWN_PATHS)
def test_a_path_that_is_no_method_is_refused_and_others_are_served_on_its_connection(
    served: Served, path: bytes
) -> None:
    with http2_client(address(served)) as client:
        for _ in range(2):
            refused = client.answer(client.request(path))
            assert (code_of(refused), refused.message) == (grpc.StatusCode.UNIMPLEMENTED, "no such method")
        assert code_of(client.answer(client.request(LIVE))) is grpc.StatusCode.OK


@pytest.mark.parametrize("path", MALFORMED_PATHS.values(), ids=MALFORMED_PATHS)
def test_a_path_that_http2_does_not_allow_ends_its_stream_alone(served: Served, path: bytes) -> None:
    with http2_client(address(served)) as client:
        assert client.answer(client.request(path)).reset is not None
        assert code_of(client.answer(client.request(LIVE))) is grpc.StatusCode.OK


def test_a_call_in_flight_outlives_such_a_path(short_path: Path) -> None:
    running, go_on = Event(), Event()

    def wait(_: object) -> Mapping[str, Array]:
        running.set()
        go_on.wait(30)
        return {}

    with serving(short_path, FakeModel(wait)) as served, http2_client(address(served)) as client:
        pending = client.request(INFER, data=message(REQUEST.SerializeToString()))
        assert running.wait(30)
        assert code_of(client.answer(client.request(b"/\xff"))) is grpc.StatusCode.UNIMPLEMENTED
        go_on.set()
        assert code_of(client.answer(pending)) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ((b":method", b"PUT"), b"405"),
        ((b"content-type", b"application/json"), b"415"),
        ((b"content-type", b"application/grpc-web"), b"415"),
        ((b"content-type", b""), b"415"),
    ],
)
def test_what_is_not_grpc_is_told_so_by_http(served: Served, changed: Header, status: bytes) -> None:
    with http2_client(address(served)) as client:
        assert client.answer(client.request(LIVE, changed)).headers == {b":status": status}
        assert code_of(client.answer(client.request(LIVE))) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ((b"te", b""), grpc.StatusCode.INTERNAL, "has no header 'te: trailers'"),
        ((b"grpc-timeout", b"1"), grpc.StatusCode.INVALID_ARGUMENT, "grpc-timeout is '1', expected up to 8 digits"),
        ((b"grpc-timeout", b"123456789S"), grpc.StatusCode.INVALID_ARGUMENT, "expected up to 8 digits"),
        ((b"a-bin", b"\xff\xfe"), grpc.StatusCode.INVALID_ARGUMENT, "metadata 'a-bin' is 'ÿþ', expected base64"),
    ],
)
def test_a_malformed_head_is_refused_in_words(
    served: Served, changed: Header, code: grpc.StatusCode, said: str
) -> None:
    with http2_client(address(served)) as client:
        refused = client.answer(client.request(LIVE, changed))
        assert code_of(refused) is code
        assert said in refused.message


@pytest.mark.parametrize("value", [b"AAEC", b"AAE=", b"AAE", b""])
def test_binary_metadata_may_lack_its_padding(served: Served, value: bytes) -> None:
    with http2_client(address(served)) as client:
        assert code_of(client.answer(client.request(LIVE, (b"a-bin", value)))) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("data", "encoding", "code", "said"),
    [
        (message(b"x", compressed=1), b"br", grpc.StatusCode.UNIMPLEMENTED, "expected one of identity, gzip, deflate"),
        (message(b"x", compressed=1), b"", grpc.StatusCode.INTERNAL, "begins with 1, expected 0"),
        (message(b"x", compressed=2), b"gzip", grpc.StatusCode.INTERNAL, "begins with 2, expected 0"),
        (message(b"x", compressed=1), b"gzip", grpc.StatusCode.INVALID_ARGUMENT, "compressed and is not"),
        (message(b"x", said=2), b"", grpc.StatusCode.INVALID_ARGUMENT, "ends within a message"),
        (b"\0\0", b"", grpc.StatusCode.INVALID_ARGUMENT, "ends within a message"),
        (None, b"", grpc.StatusCode.INVALID_ARGUMENT, "a call without a request, expected one message"),
    ],
)
@pytest.mark.parametrize("path", [LIVE, STREAM])
def test_what_is_no_message_is_refused(
    served: Served, path: bytes, data: bytes | None, encoding: bytes, code: grpc.StatusCode, said: str
) -> None:
    with http2_client(address(served)) as client:
        answered = client.answer(client.request(path, (b"grpc-encoding", encoding), data=data))
        if path == STREAM and data is None:
            assert code_of(answered) is grpc.StatusCode.OK
            return
        assert code_of(answered) is code
        assert said in answered.message
        assert (b"grpc-accept-encoding" in answered.headers) == (code is grpc.StatusCode.UNIMPLEMENTED)


def test_a_message_in_single_bytes_is_served(served: Served) -> None:
    whole = message(REQUEST.SerializeToString())
    with http2_client(address(served)) as client:
        stream = client.request(INFER, data=None, is_whole=False)
        for at in range(len(whole)):
            client.send(stream, whole[at : at + 1], is_whole=at == len(whole) - 1)
        assert code_of(client.answer(stream)) is grpc.StatusCode.OK


def test_a_client_that_does_not_end_its_request_is_answered(served: Served) -> None:
    with http2_client(address(served)) as client:
        stream = client.request(INFER, data=message(REQUEST.SerializeToString()), is_whole=False)
        answered = client.answer(stream)
        assert (code_of(answered), answered.data != b"") == (grpc.StatusCode.OK, True)


def test_a_defect_ends_its_call_alone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as defective:
        defective.setattr(served.repository, "model", lambda *_: 1 // 0)
        with pytest.raises(grpc.RpcError) as failed:
            infer(served.channel, REQUEST)
    assert failed.value.code() is grpc.StatusCode.INTERNAL
    infer(served.channel, REQUEST)


def test_what_a_status_says_may_have_any_characters(short_path: Path) -> None:
    told = "é ☃ 100% \n"

    def fail(_: object) -> Mapping[str, Array]:
        raise ServingError(ErrorKind.INTERNAL, told)

    with serving(short_path, FakeModel(fail)) as served, pytest.raises(grpc.RpcError) as failed:
        infer(served.channel, REQUEST)
    assert failed.value.details() == told


@pytest.mark.parametrize("kind", ErrorKind)
def test_each_kind_of_error_is_a_status(short_path: Path, kind: ErrorKind) -> None:
    def fail(_: object) -> Mapping[str, Array]:
        raise ServingError(kind, "so it is")

    with serving(short_path, FakeModel(fail)) as served, pytest.raises(grpc.RpcError) as failed:
        infer(served.channel, REQUEST)
    assert (failed.value.code(), failed.value.details()) == (STATUS[kind], "so it is")


@pytest.mark.parametrize("leaves", ["the deadline", "RST_STREAM", "the connection"])
def test_a_request_is_cancelled_with_its_call(short_path: Path, leaves: str) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        request.cancellation.on_cancel(cancelled.set)
        begun.set()
        cancelled.wait(30)
        raise ServingError(ErrorKind.CANCELLED, "cancelled")

    timeout = b"300m" if leaves == "the deadline" else b"1H"
    with serving(short_path, FakeModel(wait)) as served, ExitStack() as stack:
        client = stack.enter_context(http2_client(address(served)))
        stream = client.request(INFER, (b"grpc-timeout", timeout), data=message(REQUEST.SerializeToString()))
        assert begun.wait(30)
        if leaves == "RST_STREAM":
            client.reset(stream)
        elif leaves == "the connection":
            stack.close()
        assert cancelled.wait(30)
        if leaves == "the deadline":
            assert code_of(client.answer(stream)) is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_message_is_charged_by_the_length_that_it_says_before_it_comes(short_path: Path) -> None:
    budget = RequestMemoryBudget(64 * MEBIBYTE)
    with serving(short_path, FakeModel(), budget=budget) as served, ExitStack() as stack:
        clients = [stack.enter_context(http2_client(address(served))) for _ in range(4)]
        begun = [
            (client, client.request(INFER, data=message(b"", 16 * MEBIBYTE), is_whole=False)) for client in clients
        ]
        wait_until(lambda: budget.held == 64 * MEBIBYTE, "four of them are charged")
        refused = clients[0].answer(clients[0].request(INFER, data=message(b"", MEBIBYTE), is_whole=False))
        assert code_of(refused) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "all together may hold 67108864, which --request-memory allows" in refused.message
        for client, stream in begun:
            client.reset(stream)
        wait_until(lambda: budget.held == 0, "their bytes are given back")


@pytest.mark.parametrize("path", [INFER, STREAM])
def test_a_message_that_does_not_come_ends_its_call(short_path: Path, path: bytes) -> None:
    budget = RequestMemoryBudget(64 * MEBIBYTE)
    with serving(short_path, FakeModel(), HASTY, budget=budget) as served, http2_client(address(served)) as client:
        stream = client.request(path, data=message(bytes(1000), 100_000), is_whole=False)
        answered = client.answer(stream)
        assert code_of(answered) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert answered.message.endswith("its client has done nothing for 0.5 s")
        assert budget.held == 0
        assert code_of(client.answer(client.request(LIVE))) is grpc.StatusCode.OK


@pytest.mark.parametrize("path", [METADATA, STREAM])
def test_an_answer_that_is_not_taken_ends_its_call(short_path: Path, path: bytes) -> None:
    with serving(short_path, FakeModel(), HASTY) as served, http2_client(address(served), window=0) as client:
        data = message(REQUEST.SerializeToString()) if path == STREAM else NO_MESSAGE
        answered = client.answer(client.request(path, data=data))
        assert (answered.reset is not None, answered.data) == (True, b"")


def test_a_large_answer_waits_for_its_reader_and_is_charged_meanwhile(short_path: Path) -> None:
    large = raw_request(x=np.zeros(4 * MEBIBYTE, np.float32))
    budget = RequestMemoryBudget()
    with serving(short_path, FakeModel(), budget=budget) as served, http2_client(address(served), window=10) as client:
        stream = client.request(INFER, data=None, is_whole=False)
        whole = message(large.SerializeToString())
        client.send(stream, whole, is_whole=True)
        while not budget.held or served.model.requests == []:
            client.receive()
        wait_until(lambda: budget.held < len(whole), "the request is given back")
        assert budget.held > 15 * MEBIBYTE
        client.reset(stream)
        wait_until(lambda: budget.held == 0, "the answer is given back")


def test_of_too_many_calls_that_wait_for_their_clients_the_oldest_end(short_path: Path) -> None:
    with (
        serving(short_path, FakeModel(), GrpcLimits(waiting=2)) as served,
        idle_calls(address(served), 2, half_sent(INFER.decode())) as calls,
        http2_client(address(served)) as client,
    ):
        waiting: list[Any] = calls

        def one_has_ended() -> bool:
            third = client.request(INFER, data=None, is_whole=False)
            client.answer(client.request(LIVE))  # the third has come before
            client.reset(third)
            return any(call.done() for call in waiting)

        wait_until(one_has_ended, "one of them makes room")
        ended = next(call for call in waiting if call.done())
        assert ended.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "2 others wait for their clients too" in ended.details()


def test_of_many_calls_that_come_at_once_some_are_refused(short_path: Path) -> None:
    with serving(short_path, FakeModel(), GrpcLimits(waiting=1)) as served, http2_client(address(served)) as client:
        streams = [client.request(INFER, data=None, is_whole=False) for _ in range(5)]
        assert code_of(client.answer(streams[-1])) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_that_are_given_up_make_room(short_path: Path) -> None:
    with (
        serving(short_path, FakeModel(), GrpcLimits(waiting=40)) as served,
        idle_calls(address(served), 40, half_sent(INFER.decode())) as calls,
    ):
        for call in calls:
            call.cancel()
        infer(served.channel, REQUEST)


def test_health_waits_for_no_other_message(served: Served) -> None:
    with idle_calls(address(served), 4, half_sent(INFER.decode())):
        assert is_healthy(address(served))


@pytest.fixture
def fallen_back(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A front as it is where ngh2 is missing."""
    monkeypatch.setattr("nnhal_service.v2.grpc.server.Http2Front", None)
    with serving(short_path, FakeModel()) as front:
        assert front.front.served_by == "grpc.aio"
        yield front


def test_without_ngh2_calls_and_streams_are_served_too(fallen_back: Served) -> None:
    infer(fallen_back.channel, REQUEST)
    with pytest.raises(grpc.RpcError) as refused:
        infer(fallen_back.channel, raw_request(y=np.zeros(3, np.float32), model="missing"))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    stream = fallen_back.channel.stream_stream(STREAM.decode(), bytes, bytes)
    assert len(list(stream(iter([REQUEST.SerializeToString()] * 2), timeout=30))) == 2
    assert is_healthy(address(fallen_back))
