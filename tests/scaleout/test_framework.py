"""Calls that a replica passes on to its framework, which may not be there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from nnhal.errors import NnhalError
from nnhal.inference.grpc_service_pb2 import ServerReadyRequest
from nnhal_ray.framework import HostFramework
from nnhal_ray.messages import Call, HttpCall, HttpReply, ProtocolCall, ProtocolReply, Reply

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
