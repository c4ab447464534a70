"""Calls of unary methods over channels of the link."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.link import SESSION_METADATA, Channel, ChannelClosedError
from nnhal.link.channel import channel_from
from nnhal.link.numbers import CALLS, NUMBERED_ANSWERS, number_field
from nnhal.memory import create_read_only
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_hosting.calls import CallAdmission, CallLimits
from nnhal_hosting.link_calls import LinkCalls
from nnhal_hosting.link_server import LinkServer, Session
from nnhal_hosting.rpc import DEFECT, answers
from tests.support.waiting import SECONDS

LONGEST = 200_000


class Echo:
    """Methods of bytes."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.goes_on = threading.Event()

    @answers
    def Say(self, request: bytes, context: grpc.ServicerContext) -> bytes:  # noqa: N802 - a method of the wire
        match request:
            case b"token":
                return str(dict(context.invocation_metadata())[SESSION_METADATA]).encode()
            case b"refuse":
                raise HalError(ErrorStatus.MISSED_DEADLINE_PERSISTENT, "too late")
            case b"fail":
                raise ZeroDivisionError
            case b"wait":
                context.add_callback(self.goes_on.set)
                self.has_begun.set()
                assert self.goes_on.wait(SECONDS)
        return request


def add_echo(servicer: Echo, server: Any) -> None:
    """Stand for a generated function."""
    handler = grpc.unary_unary_rpc_method_handler(servicer.Say, lambda data: data, lambda data: data)
    server.add_registered_method_handlers("nnhal.v1.Echo", {"Say": handler})


class Client:
    """A client of the link."""

    def __init__(self, path: Path) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(path))
        self.link = Channel(connection)
        self.link.set_timeout(SECONDS)
        hello = wire.Hello(protocol_version=1, capabilities=[NUMBERED_ANSWERS, CALLS])
        self.link.send(wire.LinkRequest(hello=hello).SerializeToString())
        self.welcome = wire.LinkReply.FromString(self.link.receive()).welcome

    def open_calls(self) -> Channel:
        self.link.send(wire.LinkRequest(calls=wire.OpenCalls()).SerializeToString())
        reply, (end,) = self.link.receive_with_descriptors()
        assert wire.LinkReply.FromString(reply).HasField("calls")
        channel = channel_from(end)
        channel.set_timeout(SECONDS)
        return channel


def told(channel: Channel, request: bytes = b"", method: str = "Echo/Say", **more: Any) -> wire.MethodAnswer:
    """Call a method, and return its answer."""
    memory = more.pop("memory", None)
    call = wire.MethodCall(method=method, request=request, **more)
    channel.send(call.SerializeToString(), [] if memory is None else [memory])
    return wire.MethodAnswer.FromString(channel.receive())


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def client(echo: Echo, short_path: Path) -> Iterator[Client]:
    admission = CallAdmission(CallLimits(), SESSION_METADATA)

    def opened(session: Session) -> None:
        admission.opened(session.token)

    calls = LinkCalls(admission, LONGEST)
    calls.add(add_echo, echo)
    server = LinkServer(short_path / "link.sock", opened)
    server.open_calls = calls.open
    server.start()
    client = Client(short_path / "link.sock")
    yield client
    client.link.close()
    server.close()
    admission.close()


def test_calls_follow_one_another_with_their_numbers_and_the_sessions_token(client: Client) -> None:
    assert set(client.welcome.capabilities) == {NUMBERED_ANSWERS, CALLS}
    channel = client.open_calls()
    assert told(channel, b"token").answer.decode() == client.welcome.session_token
    assert told(channel, b"").answer == b""
    for number in (1, 2):
        call = wire.MethodCall(method="Echo/Say", request=b"it").SerializeToString() + number_field(number)
        channel.send(call)
        assert channel.receive() == wire.MethodAnswer(answer=b"it", number=number).SerializeToString()


def test_long_messages_lie_in_shared_memory(client: Client) -> None:
    content = bytes(range(256)) * 500
    memory = create_read_only([(0, np.frombuffer(content, np.uint8))], len(content)).descriptor
    channel = client.open_calls()
    call = wire.MethodCall(method="Echo/Say", request_bytes=len(content))
    channel.send(call.SerializeToString(), [memory])
    reply, (answer,) = channel.receive_with_descriptors()
    assert wire.MethodAnswer.FromString(reply).answer_bytes == len(content)
    found = bytearray(len(content))
    assert answer.read_into(memoryview(found), 0) == len(content) and found == content


def test_what_cannot_be_done_is_answered_with_a_status(client: Client, tmp_path: Path) -> None:
    channel = client.open_calls()
    refused = told(channel, b"refuse")
    assert (refused.status, refused.message) == (types_pb2.ERROR_STATUS_MISSED_DEADLINE_PERSISTENT, "too late")
    assert told(channel, b"fail").message == DEFECT
    assert told(channel, method="Echo/Nothing").message == "the method is not served over the link"
    memory = create_read_only([], 100).descriptor
    long = told(channel, request_bytes=LONGEST + 1, memory=memory)
    assert long.status == types_pb2.ERROR_STATUS_RESOURCE_EXHAUSTED_TRANSIENT
    assert long.message == f"the request has {LONGEST + 1} bytes, expected at most {LONGEST}"
    short = told(channel, request_bytes=101, memory=memory)
    assert (short.status, short.message) == (
        types_pb2.ERROR_STATUS_INVALID_ARGUMENT,
        "the request has 100 bytes in its memory, expected 101",
    )
    assert told(channel, b"it").answer == b"it"


def test_a_request_in_a_pipe_is_refused_unread(client: Client) -> None:
    ours, theirs = socket.socketpair()
    answer = told(client.open_calls(), request_bytes=5, memory=Descriptor(theirs.detach()))
    assert answer.message == "the request lies in a file, expected shared memory"
    ours.close()


def test_a_call_that_waits_keeps_no_other_channel_waiting_and_ends_with_its_own(client: Client, echo: Echo) -> None:
    waiting = client.open_calls()
    waiting.send(wire.MethodCall(method="Echo/Say", request=b"wait").SerializeToString())
    assert echo.has_begun.wait(SECONDS)
    assert told(client.open_calls(), b"it").answer == b"it"
    waiting.close()
    assert echo.goes_on.wait(SECONDS)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff", "1 bytes that are not a MethodCall"),
        (wire.MethodCall(request_bytes=5).SerializeToString(), "0 descriptors came with a call of 5 bytes"),
    ],
)
def test_what_is_no_call_ends_the_channel(client: Client, message: bytes, reason: str) -> None:
    channel = client.open_calls()
    channel.send(message)
    assert reason in wire.MethodAnswer.FromString(channel.receive()).message
    with pytest.raises(ChannelClosedError):
        channel.receive()


def test_a_call_before_the_answer_to_another_ends_the_channel(client: Client, echo: Echo) -> None:
    channel = client.open_calls()
    call = wire.MethodCall(method="Echo/Say", request=b"wait").SerializeToString()
    channel.send(call)
    assert echo.has_begun.wait(SECONDS)
    channel.send(call)
    assert "before the one before it" in wire.MethodAnswer.FromString(channel.receive()).message
    assert echo.goes_on.wait(SECONDS)
