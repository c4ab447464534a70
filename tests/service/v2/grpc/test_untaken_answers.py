"""Clients that do not take their answers."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from nnhal_hosting.calls import answers
from nnhal_service.v2.grpc import GrpcLimits, GrpcServer, InferenceServicer
from tests.support.idle_calls import is_healthy
from tests.support.raw_http2 import answer, connected, headers_of, opened
from tests.support.serving import shared_loop
from tests.support.v2 import SERVER, FakeLog, FakeModel, FakeRepository, FakeTrace

MOST = 8
NO_MESSAGE = bytes(5)
"""A message without bytes, behind its prefix."""


@pytest.mark.parametrize("path", [b"/grpc.health.v1.Health/Check", b"/inference.GRPCInferenceService/ServerLive"])
def test_the_connection_whose_answers_wait_longest_is_ended(monkeypatch: pytest.MonkeyPatch, path: bytes) -> None:
    monkeypatch.setattr(answers, "_PATIENCE_SECONDS", 0.0)
    repository = FakeRepository(FakeModel())
    servicer = InferenceServicer(SERVER, repository, FakeTrace(), FakeLog(), None, lambda _: "")
    limits = GrpcLimits(untaken=MOST)
    with GrpcServer(shared_loop(), ["127.0.0.1:0"], servicer, repository, limits) as front, ExitStack() as stack:
        address = front.addresses[0]
        first, second = (stack.enter_context(closing(connected(address, window=0))) for _ in range(2))
        for hoarder in (first, second):
            for stream in range(1, MOST, 2):
                hoarder.sendall(opened(stream, *headers_of(path), data=NO_MESSAGE))
            assert is_healthy(address)
        second.sendall(opened(MOST + 1, *headers_of(path), data=NO_MESSAGE))
        answer(first, MOST + 1)  # returns at the end of the connection
        assert is_healthy(address)
