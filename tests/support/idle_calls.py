"""Calls over gRPC that are opened and then do nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from tests.support.waiting import SECONDS, wait_until

_CONNECTIONS = 4
Metadata = Sequence[tuple[str, str]]
Open = Callable[[grpc.Channel], Any]


def watch(channel: grpc.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())


def half_sent(method: str, metadata: Metadata = (), messages: Iterable[bytes] | None = None) -> Open:
    """Return what opens a call of a unary method and never sends its message, or sends some as a stream."""

    def open_call(channel: Any) -> Any:
        sent = _nothing(channel) if messages is None else iter(messages)
        return channel.stream_unary(method).future(sent, metadata=metadata)

    return open_call


def complete(method: str, message: bytes, metadata: Metadata = ()) -> Open:
    def open_call(channel: Any) -> Any:
        return channel.unary_unary(method).future(message, metadata=metadata)

    return open_call


def reflect(channel: grpc.Channel) -> Any:
    """Open a stream of reflection and ask nothing."""
    return reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(_nothing(channel))


@contextmanager
def idle_calls(address: str, count: int, open_call: Open) -> Iterator[list[Any]]:
    """Keep calls open over a few connections, once the first of them has arrived, while the context lasts."""
    channels = [
        grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(_CONNECTIONS)
    ]
    try:
        for channel in channels:
            grpc.channel_ready_future(channel).result(SECONDS)
        yield [open_call(channels[number % _CONNECTIONS]) for number in range(count)]
    finally:
        for channel in channels:
            channel.close()


def is_healthy(address: str, seconds: float = SECONDS) -> bool:
    """Return whether a process says in time that it serves."""
    with grpc.insecure_channel(address) as channel:
        try:
            asked = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=seconds)
        except grpc.RpcError:
            return False
    return bool(asked.status == health_pb2.HealthCheckResponse.SERVING)


def refused(calls: Sequence[Any], count: int) -> list[str]:
    """Wait until so many of some calls have been refused, and return what each says."""
    wait_until(lambda: sum(call.done() for call in calls) >= count, f"{count} calls are refused")
    return [f"{call.code().name}: {call.details()}" for call in calls if call.done()]


def _nothing(channel: grpc.Channel) -> Iterator[bytes]:
    """No message, until the channel closes."""
    closed = threading.Event()
    channel.subscribe(lambda state: closed.set() if state is grpc.ChannelConnectivity.SHUTDOWN else None)
    closed.wait(120)
    yield from ()
