"""Wired chains: executions on several devices that run one another, for a caller that only calls the first."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.link import Channel, ChannelClosedError
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.remote.execution import burst_run
from nnhal.remote.stage import StageDescriptors
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal.v1 import burst_pb2
from nnhal_devices.host.channels.wiring import MAX_BELLS
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.chains import APART, DIAMOND, JOIN, LINE, SHAPES, Chain, Sum
from tests.support.held_device import held_device
from tests.support.processes import device_process
from tests.support.waiting import wait_until

NONE, FAILURE, INVALID = ErrorStatus.NONE, ErrorStatus.GENERAL_FAILURE, ErrorStatus.INVALID_ARGUMENT
EXPIRED_NS = 1
FAR_NS = 1 << 60


@pytest.fixture
def devices(device: RemoteDevice, cpu_acc: Endpoint) -> Iterator[list[RemoteDevice]]:
    with RemoteDevice(cpu_acc, "test") as second:
        yield [device, second]


def ended(chain: Chain) -> None:
    with pytest.raises(ChannelClosedError):
        for _ in range(100_000):  # some may run before the devices have seen the end
            chain.run()


def pair() -> tuple[Channel, Descriptor]:
    """Return two connected ends, one of them to hand over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return channel_from(Descriptor(ours.detach())), Descriptor(theirs.detach())


def execution_on(device: RemoteDevice) -> RemoteExecution:
    return device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)


@pytest.mark.parametrize("sums", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("on_one_device", [False, True])
def test_each_step_runs_after_those_that_it_needs(
    devices: list[RemoteDevice], sums: tuple[Sum, ...], on_one_device: bool
) -> None:
    chain = Chain(devices[:1] if on_one_device else devices, sums)
    for number in range(20):
        chain.check(number)


def test_a_run_passes_nothing_but_a_call_and_an_answer(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices, LINE)
    call, answer = burst_run(chain.wiring.execution, NO_DEADLINE), burst_pb2.BurstAnswer()
    answer.result.output_sufficient_size = True
    answer.result.timing.time_on_device_ns = answer.result.timing.time_in_driver_ns = -1
    assert chain.run() == answer
    assert chain.caller.traffic.sent == len(call)


@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize("sums", [LINE, DIAMOND], ids=["line", "diamond"])
def test_a_step_that_fails_is_named_and_none_that_needs_it_runs(
    devices: list[RemoteDevice], sums: tuple[Sum, ...], failing: int
) -> None:
    chain = Chain(devices, sums)
    signal, fence = create_fence()
    launched = chain.executions[failing].execute_fenced([fence])  # it is busy until the fence signals
    chain.fill(1)
    answer = chain.run()
    assert ErrorStatus(answer.status) == FAILURE
    assert answer.message == f"the step on device {failing}: the execution runs already; one at a time is allowed"
    assert [(step.step, ErrorStatus(step.answer.status)) for step in answer.steps] == [(failing, FAILURE)]
    behind = {failing}
    for number, each in enumerate(sums):
        if {each.first, each.second} & behind:
            behind.add(number)
    assert {number for number, value in enumerate(chain.values()) if math.isnan(value)} == behind
    signal.send()
    assert launched.fence is not None
    launched.fence.wait(30)
    wait_until(lambda: ErrorStatus(chain.run().status) == NONE, "the execution is free")
    chain.check(3)


def test_steps_that_fail_independently_are_all_named(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices, APART)
    answer = chain.run(EXPIRED_NS)
    assert ErrorStatus(answer.status) == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    assert [step.step for step in answer.steps] == [0, 1, 2]
    assert answer.message.startswith("the step on device 0: ")
    chain.check(2)


def test_a_deadline_applies_to_every_step(short_path: Path, device: RemoteDevice) -> None:
    with held_device(short_path) as held, RemoteDevice(held.endpoint, "test") as remote, ThreadPoolExecutor() as pool:
        chain = Chain([remote, device], LINE[:2])
        chain.fill(1)
        deadline_ns = now_ns() + 200_000_000
        run = pool.submit(chain.run, deadline_ns)
        begun = held.next()
        wait_until(lambda: now_ns() > deadline_ns, "the deadline passes")
        begun.let_go()
        answer = run.result(30)
        assert ErrorStatus(answer.status) in (ErrorStatus.MISSED_DEADLINE_TRANSIENT,)
        assert math.isnan(chain.values()[1])
        held.hold_no_more()
        chain.check(2)
        assert ErrorStatus(chain.run(FAR_NS).status) == NONE


def test_no_step_begins_after_the_run_was_cancelled(short_path: Path, device: RemoteDevice) -> None:
    with held_device(short_path) as held, RemoteDevice(held.endpoint, "test") as remote, ThreadPoolExecutor() as pool:
        chain = Chain([remote, device], LINE[:2])
        held_runs = [pool.submit(chain.run)]
        held.next().let_go()
        assert ErrorStatus(held_runs[0].result(30).status) == NONE
        chain.fill(1)
        held_runs.append(pool.submit(chain.run))
        begun = held.next()
        chain.cancelled[0] = 2
        begun.let_go()
        answer = held_runs[1].result(30)
        assert (ErrorStatus(answer.status), answer.message) == (
            FAILURE,
            "the step on device 1: the run was cancelled",
        )
        assert math.isnan(chain.values()[1])
        held.hold_no_more()
        chain.check(2)


@pytest.mark.parametrize("sums", [LINE, JOIN, APART], ids=["line", "join", "apart"])
def test_the_answer_has_the_measured_times_of_every_step(devices: list[RemoteDevice], sums: tuple[Sum, ...]) -> None:
    chain = Chain(devices, sums, measures=True)
    chain.check(1)
    answer = chain.run()
    assert [step.step for step in answer.steps] == list(range(len(sums)))
    spans = [step.answer.span for step in answer.steps]
    assert all(0 < span.started_ns <= span.ended_ns for span in spans)
    for number, each in enumerate(sums):
        assert all(spans[need].ended_ns <= spans[number].started_ns for need in (each.first, each.second) if need >= 0)
        timing = answer.steps[number].answer.result.timing
        assert 0 <= timing.time_on_device_ns <= timing.time_in_driver_ns


def test_two_chains_of_the_same_executions_run_in_turn(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices)
    first = chain.caller, chain.wiring
    chain.wire()
    chain.check(1)
    second = chain.caller, chain.wiring
    chain.caller, chain.wiring = first
    chain.check(2)
    chain.close()
    chain.caller, chain.wiring = second
    chain.check(3)


def test_a_caller_that_does_not_wait_harms_only_its_chain(devices: list[RemoteDevice]) -> None:
    chain, bystander = Chain(devices, DIAMOND), Chain(devices, DIAMOND)
    call = burst_run(chain.wiring.execution, NO_DEADLINE)
    with pytest.raises(ChannelClosedError):
        for _ in range(100_000):  # it never reads
            chain.caller.send_at_once(call)
    chain.wiring.unwire()
    bystander.check(1)
    chain.wire()
    chain.check(2)


@pytest.mark.parametrize("dying", range(3))
def test_a_device_that_dies_ends_the_chain(short_path: Path, devices: list[RemoteDevice], dying: int) -> None:
    with device_process("cpu_ref", short_path) as (child, endpoint), RemoteDevice(endpoint, "test") as mortal:
        order = list(devices)
        order.insert(dying, mortal)
        chain = Chain(order, LINE[:3])
        chain.check(1)
        child.process.kill()
        ended(chain)
        chain.wiring.unwire()
    assert [device.usage().stages for device in devices] == [0, 0]


def test_unwiring_waits_for_the_run_of_the_stage(short_path: Path, device: RemoteDevice) -> None:
    """Afterwards the memory of the chain is the client's: nothing writes to it any more."""
    with held_device(short_path) as held, RemoteDevice(held.endpoint, "test") as remote, ThreadPoolExecutor() as pool:
        chain = Chain([device, remote], LINE[:2])
        chain.fill(1)
        chain.caller.send(burst_run(chain.wiring.execution, NO_DEADLINE))
        begun = held.next()
        unwiring = pool.submit(chain.wiring.unwire)
        with pytest.raises(ChannelClosedError):
            chain.caller.receive()
        assert not unwiring.done()
        begun.let_go()
        unwiring.result(30)
        assert chain.values() == chain.expected(1)
        held.hold_no_more()


def _bells(count: int) -> list[Descriptor]:
    return [pair()[1] for _ in range(count)]


def test_a_client_has_a_limited_number_of_sockets_for_stages(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_MAX_DESCRIPTORS", "342")
    with device_process("cpu_ref", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as other:
        _have_many_stages(other)


def _have_many_stages(other: RemoteDevice) -> None:
    execution = execution_on(other)
    sockets = 3 * MAX_BELLS  # an out-bell takes two
    held = []
    for _ in range(192 // sockets - 1):  # 192 is what a session may have of the setting, and the pool takes one
        ends = [pair() for _ in range(2 * MAX_BELLS)]
        held.append([ours for ours, _ in ends])
        theirs = [theirs for _, theirs in ends]
        execution.wire(0, "the step", StageDescriptors(theirs[:MAX_BELLS], theirs[MAX_BELLS:]))
    with pytest.raises(HalError, match=r"descriptors at device cpu_ref; client 'test' \(pid") as refusal:
        execution.wire(0, "the step", StageDescriptors(_bells(MAX_BELLS), _bells(MAX_BELLS)))
    assert refusal.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    execution.release()
    assert other.usage().stages == 0
    assert execution_on(other).wire(0, "the step", StageDescriptors(_bells(1), _bells(1))).usage() == RunUsage()


def test_an_asynchronous_device_cannot_be_wired(short_path: Path, device: RemoteDevice) -> None:
    assert device.describe().can_be_wired
    with device_process("gpu_acc", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as gpu:
        assert not gpu.describe().can_be_wired
        with pytest.raises(HalError, match="the device is asynchronous"):
            execution_on(gpu).wire(0, "the step", StageDescriptors(_bells(1), _bells(1)))
