"""The launch channel: executions launched with one datagram each way."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError
from nnhal.fence import Fence, FenceError, create_fence
from nnhal.link import ChannelClosedError
from nnhal.remote import RemoteDevice, RemoteExecution, RemoteLauncher
from nnhal.types import ErrorStatus
from nnhal.v1 import execution_pb2
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.bystanders import bystander
from tests.support.entry_points import (
    Target,
    WireLaunches,
    bind,
    relaunch_on_channel,
)
from tests.support.last_words import last_words
from tests.support.processes import device_process
from tests.support.refusals import INVALID, refusal
from tests.support.resources import resources_of
from tests.support.waiting import settled, wait_until
from tests.support.wire import WireDevice


@pytest.fixture
def target(wire: WireDevice) -> Target:
    """Prepare an addition in a separate session."""
    return Target(wire, wire.prepare(addition_model()))


@pytest.fixture
def launcher(device: RemoteDevice) -> Iterator[RemoteLauncher]:
    opened = device.open_launcher()
    yield opened
    opened.close()


@pytest.fixture
def bound(device: RemoteDevice) -> tuple[RemoteExecution, Addition]:
    addition = addition_in_ashmem()
    return device.prepare_model(addition_model()).create_reusable_execution(addition.request), addition


def run(launcher: RemoteLauncher, execution: RemoteExecution) -> None:
    fence = launcher.launch(execution)
    assert fence is not None
    fence.wait()
    assert launcher.info(execution).status == ErrorStatus.NONE


def end(channel: WireLaunches, message: bytes, reason: str, descriptors: Sequence[int] = ()) -> None:
    refused = execution_pb2.LaunchAnswer.FromString(last_words(channel.channel, message, descriptors)).refused
    assert ErrorStatus(refused.status) == INVALID
    assert reason in refused.message


@pytest.mark.contract("RE-02", "RE-05")
def test_a_launch_takes_a_few_bytes_each_way(
    launcher: RemoteLauncher, device: RemoteDevice, bound: tuple[RemoteExecution, Addition]
) -> None:
    execution, addition = bound
    addition.check(lambda: run(launcher, execution), 1, 2)
    before, link = launcher.socket_bytes, device.link_bytes
    for number in range(100):
        addition.check(lambda: run(launcher, execution), number, 10)
    assert launcher.socket_bytes - before <= 100 * 150
    assert device.link_bytes == link


def test_launches_leave_nothing_behind(
    launcher: RemoteLauncher, device: RemoteDevice, bound: tuple[RemoteExecution, Addition]
) -> None:
    execution, addition = bound
    addition.check(lambda: run(launcher, execution), 1, 2)
    before, resources = settled(device.usage), resources_of(device.pid)
    for _ in range(50):
        starter, held = create_fence()
        fence = launcher.launch(execution, [held])
        assert fence is not None
        starter.send()
        fence.wait()
    wait_until(lambda: device.usage().launched == before.launched == 0, "all of them have ended")
    wait_until(lambda: resources_of(device.pid).within(resources), "the fences are closed")
    assert device.usage().descriptors == before.descriptors
    assert device.usage().mappings == before.mappings


def test_several_threads_may_launch_on_one_channel(launcher: RemoteLauncher, device: RemoteDevice) -> None:
    prepared = device.prepare_model(addition_model())

    def work(number: int) -> None:
        addition = addition_in_ashmem()
        execution = prepared.create_reusable_execution(addition.request)
        for second in range(20):
            addition.check(lambda: run(launcher, execution), number, second)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_channels_of_a_session_see_the_same_executions(
    device: RemoteDevice, launcher: RemoteLauncher, bound: tuple[RemoteExecution, Addition]
) -> None:
    execution, addition = bound
    other = device.open_launcher()
    addition.check(lambda: run(launcher, execution), 1, 2)
    assert other.info(execution) == launcher.info(execution)
    addition.check(lambda: run(other, execution), 3, 4)
    assert other.info(execution) == launcher.info(execution)


def datagrams() -> int:
    """Make an end of a pair on which the end of the other side is not seen."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.close()
    return theirs.detach()


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind("")
        listening.listen(8)
        yield listening


def a_link(listener: socket.socket) -> int:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(listener.getsockname())
    return connection.detach()


@pytest.mark.contract("VR-05")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda _: os.memfd_create("strange"), "not a socket", id="memory"),
        pytest.param(lambda _: datagrams(), "SOCK_DGRAM", id="datagrams"),
        pytest.param(a_link, "connected to one, as links are", id="a link"),
    ],
)
def test_a_descriptor_that_is_no_fence_is_refused_and_closed(
    listener: socket.socket, device: RemoteDevice, target: Target, make: Callable[[socket.socket], int], words: str
) -> None:
    addition = addition_in_ashmem()
    execution = bind(target, addition.request)
    relaunch_on_channel(target, execution).end()
    resources = resources_of(device.pid)
    _, held = create_fence()
    for _ in range(5):
        strange = Fence(held.descriptor.duplicate())
        strange.descriptor = Descriptor(make(listener))
        refusal(lambda s=strange: relaunch_on_channel(target, execution, [held, s]), INVALID, words)  # type: ignore[misc]
        ask = execution_pb2.LaunchCall(info=execution_pb2.LaunchInfo(execution=execution))
        target.launches.exchange(ask, [strange.descriptor])
        del strange
    wait_until(lambda: resources_of(device.pid).within(resources), "the descriptors that were sent are closed")
    addition.check(lambda: relaunch_on_channel(target, execution).end(), 1, 2)


def test_the_number_of_channels_that_are_not_taken_is_limited(wire: WireDevice) -> None:
    exhausted = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT

    def open_many() -> None:
        while True:
            wire.call(wire.execution.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest())

    refusal(open_many, exhausted, "objects at device|descriptors")


def test_a_client_that_calls_and_never_reads_blocks_no_other(target: Target, cpu_ref: Endpoint) -> None:
    ask = execution_pb2.LaunchCall(info=execution_pb2.LaunchInfo(execution=1)).SerializeToString()
    with bystander(cpu_ref) as other:
        usage = other.device.usage()
        target.launches.channel.set_timeout(0.5)
        with pytest.raises(ChannelClosedError, match="timed out"):
            while True:
                target.launches.channel.send(ask)
        runs = other.runs
        wait_until(lambda: other.runs > runs + 10, "another session goes on")
        target.wire.close()
        wait_until(lambda: other.device.usage().sessions == usage.sessions - 1, "the session can be ended")


def test_a_channel_of_a_dead_device_reports_its_death(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        addition, launcher = addition_in_ashmem(), device.open_launcher()
        execution = device.prepare_model(addition_model()).create_reusable_execution(addition.request)
        addition.check(lambda: run(launcher, execution), 1, 2)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises((DeadObjectError, FenceError)):
            while True:
                run(launcher, execution)
        with pytest.raises(DeadObjectError):
            launcher.launch(execution)
        with pytest.raises(DeadObjectError):
            launcher.info(execution)
