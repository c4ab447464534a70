"""The run channel: one execution, for the process that holds the other end."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

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
from tests.support.resources import resources_of
from tests.support.waiting import settled, wait_until

EXPIRED_NS = 1


class Direct:
    """An execution of an addition, and the other end of its run channel."""

    def __init__(self, device: RemoteDevice) -> None:
        self.addition: Addition = addition_in_ashmem()
        self.execution: RemoteExecution = device.prepare_model(addition_model()).create_reusable_execution(
            self.addition.request
        )
        self.channel: Channel = channel_from(self.execution.open_run_channel())

    def exchange(self, message: bytes) -> wire.BurstAnswer:
        """Send a message, and return the answer."""
        self.channel.send(message)
        return wire.BurstAnswer.FromString(self.channel.receive())

    def run(self, deadline_ns: int = NO_DEADLINE) -> wire.BurstAnswer:
        """Run it."""
        return self.exchange(burst_run(self.execution.handle, deadline_ns))


@pytest.fixture
def direct(device: RemoteDevice) -> Direct:
    """An execution with a run channel."""
    return Direct(device)


def good(direct: Direct) -> None:
    """See that a run ends well."""
    assert ErrorStatus(direct.run().status) == ErrorStatus.NONE


def test_it_runs_the_execution_each_time_on_what_its_memory_holds(direct: Direct) -> None:
    for number in range(20):
        direct.addition.check(lambda: good(direct), number, 10)


def test_runs_are_counted_and_failures_apart(direct: Direct) -> None:
    for _ in range(3):
        good(direct)
    assert ErrorStatus(direct.run(EXPIRED_NS).status) == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    usage = direct.execution.run_channel_usage()
    assert (usage.runs, usage.failed_runs) == (3, 1)
    assert usage.duration_ns > 0


def test_an_execution_without_a_run_channel_has_run_nothing_on_it(device: RemoteDevice) -> None:
    execution = device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
    assert execution.run_channel_usage() == RunUsage()


def test_nothing_else_of_the_session_can_be_named(device: RemoteDevice, direct: Direct) -> None:
    other = Direct(device)
    answer = direct.exchange(burst_run(other.execution.handle, NO_DEADLINE))
    assert ErrorStatus(answer.status) == ErrorStatus.INVALID_ARGUMENT
    assert f"expected {direct.execution.handle}" in answer.message
    assert other.execution.run_channel_usage() == RunUsage()
    good(direct)


@pytest.mark.parametrize("name", ["execute", "execute_with_config", "release_memory_resource"])
def test_no_other_call_of_a_burst_is_taken(device: RemoteDevice, direct: Direct, name: str) -> None:
    request = request_to_wire(direct.addition.request, lambda _: 1)
    tokens = [-1] * len(direct.addition.request.pools)
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
    answer = direct.exchange(calls[name].SerializeToString())
    assert ErrorStatus(answer.status) == ErrorStatus.INVALID_ARGUMENT
    assert f"got {name} on a run channel" in answer.message
    good(direct)


@pytest.mark.parametrize("message", [b"\xff" * 40, b"\x78\x01"], ids=["no message", "an empty call"])
def test_garbage_ends_the_channel_and_nothing_else(device: RemoteDevice, direct: Direct, message: bytes) -> None:
    bystander = Direct(device)
    direct.channel.send(message)
    with pytest.raises(ChannelClosedError):
        direct.channel.receive()
    direct.execution.execute()
    good(bystander)


def test_descriptors_that_come_along_are_not_kept(device: RemoteDevice, direct: Direct) -> None:
    good(direct)
    before = settled(lambda: resources_of(device.pid))
    with socket.socket(fileno=os.dup(direct.channel.fileno())) as connection:
        for _ in range(20):
            socket.send_fds(connection, [burst_run(direct.execution.handle, NO_DEADLINE)], [0, 1, 2])
            assert direct.channel.receive()
    wait_until(lambda: resources_of(device.pid).within(before), "they are closed")


@pytest.mark.parametrize(
    "end",
    [
        lambda direct: direct.execution.release(),
        lambda direct: direct.execution.run_channel_usage(close=True),
        lambda direct: direct.execution.open_run_channel(),
    ],
    ids=["released", "closed", "opened again"],
)
def test_the_session_that_opened_it_can_close_it(direct: Direct, end: Callable[[Direct], object]) -> None:
    good(direct)
    kept = end(direct)
    with pytest.raises(ChannelClosedError):
        direct.run()
        direct.run()  # the first one may have been sent before the end
    del kept


def test_it_ends_with_the_session(other: RemoteDevice) -> None:
    direct = Direct(other)
    good(direct)
    other.close()
    with pytest.raises(ChannelClosedError):
        direct.run()
        direct.run()


def test_it_cannot_run_beside_itself(device: RemoteDevice) -> None:
    """One run at a time, wherever it is asked for: the second one is refused, and harms nothing."""
    direct = Direct(device)
    statuses: set[int] = set()
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            statuses.add(direct.run().status)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        for _ in range(200):
            with suppress(HalError):
                direct.execution.execute()
        over.set()
        running.result()
    assert statuses <= {ErrorStatus.NONE, ErrorStatus.GENERAL_FAILURE}
    good(direct)


def test_opening_it_again_leaves_nothing_behind(device: RemoteDevice) -> None:
    direct = Direct(device)
    good(direct)
    before = settled(lambda: resources_of(device.pid))
    for _ in range(30):
        good(direct)
        direct.channel = channel_from(direct.execution.open_run_channel())
    wait_until(lambda: resources_of(device.pid).within(before), "every channel is closed")
