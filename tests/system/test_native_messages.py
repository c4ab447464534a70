"""The native service at the level of messages, as clients in other languages speak to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest

from nnhal.codec import error_from_rpc, memory_to_wire, model_to_wire
from nnhal.codec.bounds import MAX_ARGUMENTS, MAX_FENCES, MAX_POOLS, MAX_ROLES
from nnhal.endpoint import Endpoint
from nnhal.fence import Fence, create_fence
from nnhal.link import Channel, ChannelClosedError, Link
from nnhal.memory import create_ashmem
from nnhal.remote import open_rpc
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc, memory_pb2
from nnhal_tools.up import Testbed
from tests.support.additions import POOL_BYTES, TENSOR_BYTES, addition_model
from tests.support.refusals import INVALID, refusal

BROKEN = [
    pytest.param(b"\xff" * 64, "64 bytes that are no", id="garbage"),
    pytest.param(b"\xf8\x07\x01", "without a call", id="a call of an unknown kind"),
    pytest.param(bytes((1 << 16) + 1), "more than 65536 bytes", id="too many bytes"),
    pytest.param(b"", "0 bytes, expected 1 to 65536", id="an empty datagram"),
]
"""Datagrams that end any channel of calls, and what the last answer says."""


def last_words(channel: Channel, message: bytes, descriptors: Sequence[int] = ()) -> bytes:
    """Send a datagram as it is, return what answers it, and check that the channel ends then."""
    with socket.socket(fileno=os.dup(channel.fileno())) as connection:
        if descriptors:
            socket.send_fds(connection, [message], list(descriptors))
        else:
            connection.send(message)
    answer = channel.receive()
    with pytest.raises(ChannelClosedError, match="the other side has closed"):
        channel.receive()
    return answer


class NativeClient:
    """A session with the framework, and the addition, loaded and bound with nothing but what is required."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.link = Link(endpoint.link, "test")
        self.rpc = open_rpc(endpoint)
        self.stub = framework_pb2_grpc.FrameworkServiceStub(self.rpc)
        model = model_to_wire(addition_model(), self.link.issue)
        self.call(self.stub.LoadModel, wire.LoadModelRequest(name="addition", model=model))
        self.pool = memory_to_wire(create_ashmem(POOL_BYTES), self.link.issue)
        self.bound = self.bind()
        self.channel: Channel = self.link.take_channel(self.bound.channel_descriptor_id)

    def call(self, method: Callable[..., Any], message: Any) -> Any:
        """Make a call. Raises HalError or TransportError."""
        try:
            return method(message, metadata=self.link.metadata)
        except grpc.RpcError as error:
            raise error_from_rpc(error, "the framework") from error

    def bind(self) -> wire.BindResponse:
        tensors = [
            wire.TensorBinding(
                name=name, location=memory_pb2.DataLocation(offset=number * TENSOR_BYTES, length=TENSOR_BYTES)
            )
            for number, name in enumerate(("input0", "input1", "output0"))
        ]
        request = wire.BindRequest(model="addition", inputs=tensors[:2], outputs=tensors[2:], pools=[self.pool])
        answer: wire.BindResponse = self.call(self.stub.Bind, request)
        return answer

    def close(self) -> None:
        self.channel.close()
        self.link.close()
        self.rpc.close()


@pytest.fixture
def client(testbed: Testbed) -> Iterator[NativeClient]:
    session = NativeClient(Endpoint(testbed.framework, "framework"))
    yield session
    session.close()


def test_a_run_without_a_deadline(client: NativeClient) -> None:
    report = client.call(client.stub.Run, wire.RunRequest(binding=client.bound.binding)).report
    assert report.duration_ns > 0
    assert report.started_ns == -1
    client.channel.send(wire.RunCall(lost_run_channel=True).SerializeToString())
    answer = wire.RunAnswer.FromString(client.channel.receive())
    assert (ErrorStatus(answer.status), answer.message) == (ErrorStatus.NONE, "")


def test_a_launch_without_a_deadline_and_a_duration(client: NativeClient) -> None:
    launched = client.call(client.stub.LaunchRun, wire.LaunchRunRequest(binding=client.bound.binding))
    Fence(client.link.take(launched.fence_descriptor_id)).wait(60)
    ended = client.call(client.stub.GetLaunchedRun, wire.GetLaunchedRunRequest(launched=launched.launched))
    assert ErrorStatus(ended.status) == ErrorStatus.NONE


def test_a_deadline_that_is_set_to_0_has_passed(client: NativeClient) -> None:
    run = wire.RunRequest(binding=client.bound.binding, deadline_ns=0)
    refusal(lambda: client.call(client.stub.Run, run), ErrorStatus.MISSED_DEADLINE_PERSISTENT, "")


def test_a_launch_names_the_fence_that_is_in_error(client: NativeClient) -> None:
    signal, fence = create_fence()
    _, good = create_fence()
    signal.fail()
    numbers = client.link.put([good.descriptor, fence.descriptor])
    launch = wire.LaunchRunRequest(binding=client.bound.binding, wait_for_descriptor_ids=numbers)
    words = f"the fence of descriptor {numbers[1]} to wait for is in error"
    refusal(lambda: client.call(client.stub.LaunchRun, launch), INVALID, words)


@pytest.mark.parametrize(("message", "reason"), [each for each in BROKEN if "unknown kind" not in str(each.id)])
def test_garbage_on_the_channel_of_a_binding_is_answered_and_ends_it(
    client: NativeClient, message: bytes, reason: str
) -> None:
    answer = wire.RunAnswer.FromString(last_words(client.channel, message))
    assert ErrorStatus(answer.status) == INVALID
    assert reason in answer.message
    again = client.bind()
    client.call(client.stub.Run, wire.RunRequest(binding=again.binding))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        pytest.param(
            lambda client: client.call(
                client.stub.Bind, wire.BindRequest(model="addition", pools=[client.pool] * (MAX_POOLS + 1))
            ),
            "4097 pools, expected at most 4096",
            id="pools",
        ),
        pytest.param(
            lambda client: client.call(
                client.stub.Bind,
                wire.BindRequest(model="addition", inputs=[wire.TensorBinding()] * (MAX_ARGUMENTS + 1)),
            ),
            "65537 inputs, expected at most 65536",
            id="inputs",
        ),
        pytest.param(
            lambda client: client.call(
                client.stub.LaunchRun,
                wire.LaunchRunRequest(binding=client.bound.binding, wait_for_descriptor_ids=[1] * (MAX_FENCES + 1)),
            ),
            "257 fences to wait for, expected at most 256",
            id="fences",
        ),
        pytest.param(
            lambda client: client.call(
                client.stub.AllocateMemory, wire.AllocateMemoryRequest(roles=[wire.MemoryRole()] * (MAX_ROLES + 1))
            ),
            "4097 roles, expected at most 4096",
            id="roles",
        ),
    ],
)
def test_a_list_that_is_too_long_is_refused(
    client: NativeClient, ask: Callable[[NativeClient], object], words: str
) -> None:
    refusal(lambda: ask(client), INVALID, words)
