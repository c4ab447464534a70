"""The run channel: a socket on which a process runs one execution."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from nnhal.errors import HalError
from nnhal.link import Channel
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal.v1 import burst_pb2 as wire
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.held_device import held_device
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


def test_descriptors_that_come_with_a_run_are_closed(device: RemoteDevice, channel: OpenChannel) -> None:
    good(channel)
    before = settled(lambda: resources_of(device.pid))
    with socket.socket(fileno=os.dup(channel.client_end.fileno())) as connection:
        for _ in range(20):
            socket.send_fds(connection, [burst_run(channel.execution.handle, NO_DEADLINE)], [0, 1, 2])
            assert channel.client_end.receive()
    wait_until(lambda: resources_of(device.pid).within(before), "they are closed")


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
