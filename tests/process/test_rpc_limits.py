"""Limits of calls over gRPC on a device's process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2
from nnhal_hosting.supervision import Child
from tests.support.calls import session_with
from tests.support.idle_calls import complete, half_sent, idle_calls, is_healthy, refused
from tests.support.processes import device_process
from tests.support.resources import forget_peak, peak_bytes, resident_bytes
from tests.support.waiting import SECONDS, settled, wait_until

CHECK = "/grpc.health.v1.Health/Check"
GET_TYPE = "/nnhal.v1.DeviceService/GetType"
MEBIBYTE = 1 << 20
SETTINGS = {
    "WAITING": 20,
    "MESSAGE_BYTES": 4 * MEBIBYTE,
    "MEMORY_BYTES": 2 * MEBIBYTE,
    "STALLED_SECS": 0.3,
    "THREADS": 2,
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Child, Endpoint]]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
    ):
        for name, value in SETTINGS.items():
            patch.setenv(f"NNHAL_DEVICE_RPC_{name}", str(value))
        with device_process("null", Path(directory)) as started:
            yield started


@pytest.fixture
def endpoint(running: tuple[Child, Endpoint]) -> Endpoint:
    return running[1]


def message(size: int) -> device_pb2.GetSupportedOperationsRequest:
    request = device_pb2.GetSupportedOperationsRequest()
    request.model.operand_values = bytes(size)
    return request


def test_messages_of_all_calls_share_memory(endpoint: Endpoint) -> None:
    with session_with(endpoint) as wire:
        with pytest.raises(HalError) as caught:
            wire.call(wire.device.GetSupportedOperations, message(3 * MEBIBYTE))
        size = message(3 * MEBIBYTE).ByteSize()
        assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        assert caught.value.message == (
            f"the request of GetSupportedOperations holds {size} bytes; all together may hold {2 * MEBIBYTE} "
            "(NNHAL_DEVICE_RPC_MEMORY_BYTES)"
        )
        for _ in range(4):  # what was refused, or was answered, holds nothing
            with pytest.raises(HalError) as caught:
                wire.call(wire.device.GetSupportedOperations, message(MEBIBYTE))
            assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_a_message_that_is_too_long_is_refused(endpoint: Endpoint) -> None:
    with session_with(endpoint) as wire, pytest.raises(grpc.RpcError) as caught:
        wire.device.GetSupportedOperations(message(5 * MEBIBYTE), metadata=wire.metadata, timeout=SECONDS)
    call: Any = caught.value
    assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_bytes_that_are_no_message_are_an_error_of_their_sender(endpoint: Endpoint) -> None:
    with (
        Link(endpoint.link) as link,
        grpc.insecure_channel(endpoint.address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        complete(GET_TYPE, b"\xff" * 9, link.metadata)(channel).result(SECONDS)
    call: Any = caught.value
    assert (call.code(), call.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "the request of GetType: 9 bytes that are not its message",
    )


def test_a_call_without_a_message_is_an_error_of_its_sender(endpoint: Endpoint) -> None:
    with (
        Link(endpoint.link) as link,
        grpc.insecure_channel(endpoint.address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        half_sent(GET_TYPE, link.metadata, messages=())(channel).result(SECONDS)
    call: Any = caught.value
    assert (call.code(), call.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "GetType without a request, expected one message",
    )


def test_a_call_ends_if_its_message_does_not_come(endpoint: Endpoint) -> None:
    with (
        Link(endpoint.link, "slow") as link,
        idle_calls(endpoint.address, 1, half_sent(GET_TYPE, link.metadata)) as calls,
    ):
        assert refused(calls, 1) == ["CANCELLED: CANCELLED"]


def test_calls_of_a_session_beyond_those_that_may_wait_are_refused(endpoint: Endpoint) -> None:
    with (
        Link(endpoint.link, "many") as link,
        idle_calls(endpoint.address, 60, half_sent(GET_TYPE, link.metadata)) as calls,
    ):
        limit = SETTINGS["WAITING"]
        words = f"RESOURCE_EXHAUSTED: {limit} calls wait already, which is as many as may at a time "
        said = refused(calls, 60 - 25)
        assert f"{words}(NNHAL_DEVICE_RPC_WAITING)" in said
        with RemoteDevice(endpoint, "other") as other:
            assert other.usage().sessions == 2


def test_of_clients_without_a_session_the_newest_is_heard_first(endpoint: Endpoint) -> None:
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(idle_calls(endpoint.address, 100, half_sent(CHECK)))
            assert is_healthy(endpoint.address)


def test_what_waits_is_not_read_ahead(running: tuple[Child, Endpoint]) -> None:
    child, endpoint = running
    before = settled(lambda: resident_bytes(child.pid) >> 22)
    with Link(endpoint.link, "large") as link, ExitStack() as stack:
        stack.enter_context(idle_calls(endpoint.address, 1, half_sent(GET_TYPE, link.metadata)))
        long = bytes(3 * MEBIBYTE)
        calls = stack.enter_context(idle_calls(endpoint.address, 60, complete(GET_TYPE, long, link.metadata)))
        wait_until(lambda: sum(call.done() for call in calls) >= 20, "the first calls are refused")
        assert (resident_bytes(child.pid) >> 22) - before < 12, "the messages of calls that wait are in memory"


GREEDY = """
import socket, sys
held = []
for _ in range(200):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(sys.argv[1])
    try:
        held[-1].sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    except OSError:
        pass
print("open", flush=True)
sys.stdin.read()
"""


def test_a_process_with_very_many_connections_leaves_some_to_others(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_RPC_CONNECTIONS", "64")
    with device_process("null", short_path) as (child, endpoint):
        command = [sys.executable, "-c", GREEDY, str(endpoint.rpc)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as greedy:
            assert greedy.stdout is not None and greedy.stdin is not None
            assert greedy.stdout.readline() == "open\n"
            for _ in range(3):
                with grpc.insecure_channel(endpoint.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                    client = health_pb2_grpc.HealthStub(channel)
                    client.Check(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=True)
            assert len(list(Path(f"/proc/{child.pid}/fd").iterdir())) > 56, "the greedy process keeps its share"
            greedy.stdin.close()


def test_one_connection_too_many_is_closed_and_the_others_go_on(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_RPC_CONNECTIONS", "2")
    options = [("grpc.use_local_subchannel_pool", 1)]
    with device_process("null", short_path) as (_, endpoint), ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(endpoint.address, options=options)) for _ in range(3)]
        clients = [health_pb2_grpc.HealthStub(channel) for channel in channels]
        for client in clients[:2]:
            client.Check(health_pb2.HealthCheckRequest(), timeout=30)
        with pytest.raises(grpc.RpcError) as refused:
            clients[2].Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        for client in clients[:2]:
            client.Check(health_pb2.HealthCheckRequest(), timeout=30)


def test_messages_that_are_received_at_a_time_take_little_more_than_their_limit(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_RPC_MEMORY_BYTES", str(8 * MEBIBYTE))
    sessions, size = 40, 16 * MEBIBYTE
    with device_process("null", short_path) as (child, endpoint), ExitStack() as stack:
        before = forget_peak(child.pid)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        channels: list[Any] = [
            stack.enter_context(grpc.insecure_channel(endpoint.address, options=options)) for _ in range(4)
        ]
        sent = []
        for number in range(sessions):
            link = stack.enter_context(Link(endpoint.link, "large"))
            sent.append(complete(GET_TYPE, bytes(size), link.metadata)(channels[number % 4]))
        codes = {call.exception(120).code() for call in sent}
        assert codes <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert peak_bytes(child.pid) - before < sessions * size // 2
        wait_until(lambda: resident_bytes(child.pid) - before < 64 * MEBIBYTE, "the memory is given back")
