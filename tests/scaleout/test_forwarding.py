"""What a replica knows of a call that its framework did not answer."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import grpc

from nnhal.inference.grpc_service_pb2 import ServerReadyRequest
from nnhal_ray.forwarding import Forwarder
from nnhal_ray.messages import ProtocolReply


def asked(framework: Path) -> ProtocolReply:
    async def ask() -> ProtocolReply:
        async with Forwarder(framework) as forwarder:
            return await forwarder.ask("ServerReady", ServerReadyRequest(), 60)

    return asyncio.run(ask())


def test_a_framework_that_is_not_there_has_not_answered(short_path: Path) -> None:
    reply = asked(short_path)
    assert (reply.code, reply.is_unanswered) == (grpc.StatusCode.UNAVAILABLE, True)


def test_nor_has_one_that_has_left_its_socket(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(short_path / "inference.sock"))
    reply = asked(short_path)
    assert (reply.code, reply.is_unanswered) == (grpc.StatusCode.UNAVAILABLE, True)
