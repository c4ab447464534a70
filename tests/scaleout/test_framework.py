"""Calls that a replica passes on to its framework, which may not be there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from nnhal.errors import NnhalError
from nnhal.inference.grpc_service_pb2 import ServerReadyRequest, ServerReadyResponse
from nnhal_ray.framework import HostFramework
from nnhal_ray.messages import Call, HttpCall, HttpReply, ProtocolCall, ProtocolReply, Reply, WireMessage
from nnhal_ray.protocol import STREAM, UNARY, add_to_server

READY = ProtocolCall("ServerReady", ServerReadyRequest().SerializeToString())


def no_address() -> str:
    raise NnhalError("the supervisor has ended")


def asked(directory: Path, call: Call) -> Reply:
    async def ask() -> Reply:
        async with HostFramework(directory, no_address) as framework:
            return await framework.forward(call)

    return asyncio.run(ask())


def unanswered(reply: Reply) -> bool:
    assert isinstance(reply, ProtocolReply)
    return reply.is_unanswered and reply.code is grpc.StatusCode.UNAVAILABLE


def test_a_framework_that_is_not_there_has_not_answered(short_path: Path) -> None:
    assert unanswered(asked(short_path, READY))


def test_nor_has_one_that_has_left_its_socket(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(short_path / "inference.sock"))
    assert unanswered(asked(short_path, READY))


def test_nor_has_one_whose_address_nobody_knows(short_path: Path) -> None:
    reply = asked(short_path, HttpCall("GET", "/v2", "", {}, b""))
    assert isinstance(reply, HttpReply)
    assert (reply.status, reply.is_unanswered) == (503, True)
    assert "started again" in reply.text


class Dying:
    """A framework that says it is ready, and ends some inferences as one that is killed does."""

    def __init__(self, deaths: int) -> None:
        for name in (*UNARY, STREAM):
            setattr(self, name, self._ready)
        self.ModelInfer = self._infer
        self.left, self.asked = deaths, 0

    def _ready(self, _: WireMessage, __: grpc.ServicerContext) -> WireMessage:
        return WireMessage(ServerReadyResponse(ready=True).SerializeToString())

    def _infer(self, request: WireMessage, context: grpc.ServicerContext) -> WireMessage:
        self.asked += 1
        if self.asked <= self.left:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        return request


@pytest.mark.parametrize(("deaths", "asked", "is_ok"), [(0, 1, True), (2, 3, True), (9, 4, False)])
def test_an_inference_is_asked_again_some_times(short_path: Path, deaths: int, asked: int, is_ok: bool) -> None:
    async def ask() -> Reply:
        async with HostFramework(short_path, no_address) as framework:
            return await framework.infer(ProtocolCall("ModelInfer", b"x"))

    dying, server = Dying(deaths), grpc.server(ThreadPoolExecutor(1))
    add_to_server(dying, server)
    server.add_insecure_port(f"unix:{short_path / 'inference.sock'}")
    server.start()
    try:
        assert asyncio.run(ask()).is_ok is is_ok
    finally:
        server.stop(None).wait()
    assert dying.asked == asked


def test_a_stream_to_a_framework_that_is_not_there_ends_with_its_status(short_path: Path) -> None:
    async def messages() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b""

    async def ask() -> list[bytes]:
        async with HostFramework(short_path, no_address) as framework:
            return [answer async for answer in framework.stream(messages(), {})]

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(ask())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
