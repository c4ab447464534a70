"""Calls that no client of gRPC sends: each ends alone, and nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import numpy as np
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined,unused-ignore] # grpcio has no types for it

from nnhal.arrays import Array
from nnhal_service.v2.grpc import accepting
from nnhal_service.v2.grpc.message_receiver import MessageReceiver
from tests.support.raw_http2 import answer, connected, headers_of, opened
from tests.support.v2 import FakeModel, infer, raw_request
from tests.support.v2_front import Served, serving

INFER = b"/inference.GRPCInferenceService/ModelInfer"
REFUSED = b"no such method"
PATHS = {
    "not UTF-8": b"/\xff",
    "not UTF-8 in a known service": INFER + b"\xc3",
    "UTF-8 that is no method": "/é/☃".encode(),
    "a surrogate": b"/\xed\xa0\x80",
    "NUL": b"/\0",
    "no slash": b"ModelInfer",
    "an unknown method": b"/inference.GRPCInferenceService/Nothing",
}


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    with serving(short_path, FakeModel()) as front:
        yield front


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_path_that_is_no_method_is_refused_and_others_are_served_on_their_connections(
    served: Served, path: bytes
) -> None:
    request = raw_request(x=np.zeros(3, np.float32))
    infer(served.channel, request)
    with connected(served.front.addresses[0]) as connection:
        for stream in (1, 3):  # the connection goes on too
            connection.sendall(opened(stream, *headers_of(path)))
            assert REFUSED in answer(connection, stream)
    infer(served.channel, request)
    with grpc.insecure_channel(served.front.addresses[0]) as fresh:
        infer(fresh, request)


def test_a_call_in_flight_outlives_such_a_path(short_path: Path) -> None:
    running, go_on = Event(), Event()

    def wait(_: object) -> Mapping[str, Array]:
        running.set()
        go_on.wait(30)
        return {}

    with serving(short_path, FakeModel(wait)) as served:
        call: Any = served.channel.unary_unary(INFER.decode(), None, None)
        pending = call.future(raw_request(x=np.zeros(3, np.float32)).SerializeToString(), timeout=30)
        assert running.wait(30)
        with connected(served.front.addresses[0]) as connection:
            connection.sendall(opened(1, *headers_of(b"/\xff")))
            assert REFUSED in answer(connection, 1)
        go_on.set()
        assert pending.exception() is None


@pytest.mark.parametrize("by_method", [True, False])
def test_calls_are_served_whether_methods_accept_their_own_or_the_loop_of_grpcio_does(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, by_method: bool
) -> None:
    assert accepting._SERVES_BY_METHOD
    monkeypatch.setattr(accepting, "_SERVES_BY_METHOD", by_method)
    with serving(short_path, FakeModel()) as served:
        for _ in range(3):
            infer(served.channel, raw_request(x=np.zeros(3, np.float32)))


@pytest.mark.parametrize("soon", [0.0, 60.0])
def test_calls_are_served_whether_they_are_answered_soon_or_not(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, soon: float
) -> None:
    monkeypatch.setattr(accepting, "_SOON_SECONDS", soon)
    with serving(short_path, FakeModel()) as served:
        for _ in range(3):
            infer(served.channel, raw_request(x=np.zeros(3, np.float32)))
            with pytest.raises(grpc.RpcError) as refused:
                infer(served.channel, raw_request(y=np.zeros(3, np.float32), model="missing"))
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_call_that_is_answered_soon_takes_two_exchanges_beside_the_one_that_begins_it(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_SOON_SECONDS", 60.0)
    execute, exchanges = cygrpc.execute_batch, list[list[str]]()

    async def noted(state: Any, operations: tuple[object, ...], loop: Any) -> None:
        exchanges.append([type(operation).__name__.removesuffix("Operation") for operation in operations])
        await execute(state, operations, loop)

    with serving(short_path, FakeModel()) as served:
        monkeypatch.setattr(cygrpc, "execute_batch", noted)
        infer(served.channel, raw_request(x=np.zeros(3, np.float32)))
    assert exchanges == [
        ["ReceiveMessage"],
        ["SendInitialMetadata", "SendMessage", "SendStatusFromServer", "ReceiveCloseOnServer"],
    ]


def test_a_defect_ends_its_call_alone(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = raw_request(x=np.zeros(3, np.float32))
    with serving(short_path, FakeModel()) as served:
        with monkeypatch.context() as defective:
            defective.setattr(MessageReceiver, "receive", lambda *_: 1 // 0)
            with pytest.raises(grpc.RpcError) as failed:
                infer(served.channel, request)
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        infer(served.channel, request)
