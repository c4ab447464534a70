"""The run channel: a socket on which a process runs one execution."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from nnhal.codec import request_to_wire
from nnhal.errors import HalError
from nnhal.link import Channel, ChannelClosedError
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal.v1 import burst_pb2 as wire
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.held_device import held_device
from tests.support.last_words import BROKEN, last_words
from tests.support.resources import resources_of, threads_of
from tests.support.waiting import settled, wait_until

EXPIRED_NS = 1
CHANNELS = 200
POLLING_THREADS = 4
"""Threads that serve channels beside the first ones, whatever their number."""


class OpenChannel:
    """An execution of an addition, and the client's end of its run channel."""

    def __init__(self, device: RemoteDevice) -> None:
        self.addition: Addition = addition_in_ashmem()
        self.execution: RemoteExecution = device.prepare_model(addition_model()).create_reusable_execution(
            self.addition.request
        )
        self.client_end: Channel = channel_from(self.execution.open_run_channel())

    def exchange(self, message: bytes) -> wire.BurstAnswer:
        self.client_end.send(message)
        return wire.BurstAnswer.FromString(self.client_end.receive())

    def run(self, deadline_ns: int = NO_DEADLINE) -> wire.BurstAnswer:
        return self.exchange(burst_run(self.execution.handle, deadline_ns))


@pytest.fixture
def channel(device: RemoteDevice) -> OpenChannel:
    return OpenChannel(device)


def good(channel: OpenChannel) -> None:
    assert ErrorStatus(channel.run().status) == ErrorStatus.NONE


def test_each_run_uses_the_current_contents_of_memory(channel: OpenChannel) -> None:
    for number in range(20):
        channel.addition.check(lambda: good(channel), number, 10)


def test_runs_and_failures_are_counted_separately(channel: OpenChannel) -> None:
    for _ in range(3):
        good(channel)
    assert ErrorStatus(channel.run(EXPIRED_NS).status) == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    usage = channel.execution.run_channel_usage()
    assert (usage.runs, usage.failed_runs) == (3, 1)
    assert usage.duration_ns > 0


def test_an_execution_without_a_run_channel_has_no_runs(device: RemoteDevice) -> None:
    execution = device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
    assert execution.run_channel_usage() == RunUsage()


def test_no_other_execution_of_the_session_can_be_run(device: RemoteDevice, channel: OpenChannel) -> None:
    other = OpenChannel(device)
    answer = channel.exchange(burst_run(other.execution.handle, NO_DEADLINE))
    assert ErrorStatus(answer.status) == ErrorStatus.INVALID_ARGUMENT
    assert f"expected {channel.execution.handle}" in answer.message
    assert other.execution.run_channel_usage() == RunUsage()
    good(channel)


@pytest.mark.parametrize("name", ["execute", "execute_with_config", "release_memory_resource"])
def test_other_calls_of_a_burst_are_refused(device: RemoteDevice, channel: OpenChannel, name: str) -> None:
    request = request_to_wire(channel.addition.request, lambda _: 1)
    tokens = [-1] * len(channel.addition.request.pools)
    calls = {
        "execute": wire.BurstCall(
            execute=wire.BurstServiceExecuteSynchronouslyRequest(request=request, memory_identifier_tokens=tokens)
        ),
        "execute_with_config": wire.BurstCall(
            execute_with_config=wire.BurstServiceExecuteSynchronouslyWithConfigRequest(
                request=request, memory_identifier_tokens=tokens
            )
        ),
        "release_memory_resource": wire.BurstCall(
            release_memory_resource=wire.ReleaseMemoryResourceRequest(memory_identifier_token=0)
        ),
    }
    answer = channel.exchange(calls[name].SerializeToString())
    assert ErrorStatus(answer.status) == ErrorStatus.INVALID_ARGUMENT
    assert f"got {name} on a run channel" in answer.message
    good(channel)


@pytest.mark.parametrize(("message", "reason"), BROKEN)
def test_garbage_is_answered_and_ends_only_the_channel(
    device: RemoteDevice, channel: OpenChannel, message: bytes, reason: str
) -> None:
    bystander = OpenChannel(device)
    answer = wire.BurstAnswer.FromString(last_words(channel.client_end, message))
    assert ErrorStatus(answer.status) == ErrorStatus.INVALID_ARGUMENT
    assert reason in answer.message
    channel.execution.execute()
    good(bystander)


def test_descriptors_that_come_with_a_run_are_closed(device: RemoteDevice, channel: OpenChannel) -> None:
    good(channel)
    before = settled(lambda: resources_of(device.pid))
    with socket.socket(fileno=os.dup(channel.client_end.fileno())) as connection:
        for _ in range(20):
            socket.send_fds(connection, [burst_run(channel.execution.handle, NO_DEADLINE)], [0, 1, 2])
            assert channel.client_end.receive()
    wait_until(lambda: resources_of(device.pid).within(before), "they are closed")


@pytest.mark.parametrize(
    "end",
    [
        lambda channel: channel.execution.release(),
        lambda channel: channel.execution.run_channel_usage(close=True),
        lambda channel: channel.execution.open_run_channel(),
    ],
    ids=["released", "closed", "opened again"],
)
def test_the_session_can_close_the_channel(channel: OpenChannel, end: Callable[[OpenChannel], object]) -> None:
    good(channel)
    kept = end(channel)
    with pytest.raises(ChannelClosedError):
        channel.run()
        channel.run()  # the first one may have been sent before the end
    del kept


def test_the_channel_ends_with_the_session(other: RemoteDevice) -> None:
    channel = OpenChannel(other)
    good(channel)
    other.close()
    with pytest.raises(ChannelClosedError):
        while True:  # the device learns of the end over another socket
            channel.run()


def test_the_execution_cannot_run_twice_at_a_time(device: RemoteDevice) -> None:
    """A second run at the same time is refused, over the channel and over gRPC, and harms nothing."""
    channel = OpenChannel(device)
    statuses: set[int] = set()
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            statuses.add(channel.run().status)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        for _ in range(200):
            with suppress(HalError):
                channel.execution.execute()
        over.set()
        running.result()
    assert statuses <= {ErrorStatus.NONE, ErrorStatus.GENERAL_FAILURE}
    good(channel)


def test_run_channels_leave_nothing_behind(device: RemoteDevice) -> None:
    channel = OpenChannel(device)
    good(channel)
    before = settled(lambda: resources_of(device.pid))
    for _ in range(30):
        good(channel)
        channel.client_end = channel_from(channel.execution.open_run_channel())
    wait_until(lambda: resources_of(device.pid).within(before), "every channel is closed")


def test_many_run_channels_take_few_threads(device: RemoteDevice) -> None:
    channels = [OpenChannel(device) for _ in range(CHANNELS)]
    before = threads_of(device.pid)
    for _ in range(3):
        for channel in channels:
            good(channel)
    wait_until(lambda: threads_of(device.pid) <= before + POLLING_THREADS, "runs take no threads of their own")


def test_a_client_that_reads_no_answers_costs_nobody_anything(device: RemoteDevice, other: RemoteDevice) -> None:
    stalled, served = OpenChannel(device), OpenChannel(other)
    good(stalled)
    message = burst_run(stalled.execution.handle, NO_DEADLINE)
    stalled.client_end.defer_sends()
    sent = 0
    while not stalled.client_end.has_unsent:
        stalled.client_end.send(message)
        sent += 1
        good(served)
    for _ in range(sent):
        assert stalled.client_end.receive()
        stalled.client_end.flush()
    good(stalled)


@pytest.mark.parametrize("spin_us", ["0", "100"])
def test_a_long_run_delays_no_other_client(short_path: Path, spin_us: str) -> None:
    with (
        held_device(short_path, "--workers", "2", "--spin-us", spin_us) as held,
        RemoteDevice(held.endpoint) as first,
        RemoteDevice(held.endpoint) as second,
    ):
        busy, other = OpenChannel(first), OpenChannel(second)
        busy.client_end.send(burst_run(busy.execution.handle, NO_DEADLINE))
        long = held.next()
        for _ in range(3):
            other.client_end.send(burst_run(other.execution.handle, NO_DEADLINE))
            held.next().let_go()
            assert ErrorStatus(wire.BurstAnswer.FromString(other.client_end.receive()).status) == ErrorStatus.NONE
        long.let_go()
        assert busy.client_end.receive()
