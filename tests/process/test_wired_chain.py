"""Wired chains: executions on several devices that run one another, for a caller that only calls the first."""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.link import Channel, ChannelClosedError
from nnhal.link.channel import channel_from
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.remote.execution import burst_run
from nnhal.remote.stage import StageDescriptors
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal.v1 import burst_pb2, chain_pb2, types_pb2
from nnhal_devices.host.channels.wiring import MAX_BELLS
from tests.support.additions import addition_in_ashmem, addition_model, addition_of_unknown_size
from tests.support.chains import APART, DIAMOND, JOIN, LINE, SHAPES, Chain, Sum
from tests.support.held_device import held_device
from tests.support.last_words import BROKEN, last_words
from tests.support.processes import device_process
from tests.support.resources import resources_of
from tests.support.waiting import settled, wait_until

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


def sockets_of(device: RemoteDevice) -> int:
    return resources_of(device.pid).descriptors["socket"]


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
    assert chain.caller.bytes_sent == len(call)


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


def test_the_exit_counts_the_runs(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices, JOIN)
    for number in range(3):
        chain.check(number)
    chain.run(EXPIRED_NS)
    runs, failed_runs, duration_ns = chain.wiring.usage()
    assert (runs, failed_runs) == (3, 1)
    assert duration_ns > 0


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


def test_a_call_for_something_else_is_refused_and_the_chain_goes_on(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices)
    answer = chain.exchange(burst_run(chain.executions[2].handle, NO_DEADLINE))
    assert ErrorStatus(answer.status) == INVALID
    assert f"expected {chain.executions[0].handle}" in answer.message
    release = burst_pb2.ReleaseMemoryResourceRequest(memory_identifier_token=1)
    answer = chain.exchange(burst_pb2.BurstCall(release_memory_resource=release).SerializeToString())
    assert "got release_memory_resource on a run channel" in answer.message
    assert ErrorStatus(chain.run(-5).status) == INVALID
    chain.check(1)
    chain.cancelled[0] = 3  # the number of the next run: refused calls are none
    assert chain.run().message == "the step on device 0: the run was cancelled"


@pytest.mark.parametrize(("message", "reason"), BROKEN)
def test_garbage_is_answered_and_ends_only_the_chain(devices: list[RemoteDevice], message: bytes, reason: str) -> None:
    chain, bystander = Chain(devices), Chain(devices)
    answer = burst_pb2.BurstAnswer.FromString(last_words(chain.caller, message))
    assert ErrorStatus(answer.status) == INVALID
    assert reason in answer.message
    bystander.check(1)
    chain.wiring.unwire()
    chain.wire()
    chain.check(2)


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


@pytest.mark.parametrize("sums", [LINE, DIAMOND, APART], ids=["line", "diamond", "apart"])
@pytest.mark.parametrize(
    "end",
    [
        lambda chain: chain.executions[0].release(),
        lambda chain: chain.executions[1].release(),
        lambda chain: chain.executions[-1].release(),
        lambda chain: chain.wiring.unwire(),
        lambda chain: chain.caller.close(),
    ],
    ids=["first released", "second released", "last released", "unwired", "caller gone"],
)
def test_a_chain_ends_as_a_whole(
    devices: list[RemoteDevice], sums: tuple[Sum, ...], end: Callable[[Chain], object]
) -> None:
    kept = [execution_on(device) for device in devices]
    before = settled(lambda: sum(map(sockets_of, devices)))
    chain = Chain(devices, sums)
    chain.check(1)
    end(chain)
    ended(chain)
    wait_until(lambda: sum(map(sockets_of, devices)) <= before, "every socket is closed")
    chain.wiring.unwire()
    assert [device.usage().stages for device in devices] == [0, 0]
    assert [execution.execute().output_sufficient_size for execution in kept] == [True, True]


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


def test_the_chain_ends_with_a_session(devices: list[RemoteDevice], other: RemoteDevice) -> None:
    chain = Chain([devices[0], other, devices[1]], LINE[:3])
    chain.check(1)
    other.close()
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


def test_chains_leave_nothing_behind(devices: list[RemoteDevice]) -> None:
    chain = Chain(devices, DIAMOND, measures=True)
    chain.check(1)
    before = [settled(partial(resources_of, each.pid)) for each in devices]
    threads = threading.active_count()
    for number in range(30):
        chain.close()
        chain.wire()
        chain.check(number)
    wait_until(
        lambda: all(resources_of(each.pid).within(held) for each, held in zip(devices, before, strict=True)),
        "every socket and page is released",
    )
    assert threading.active_count() <= threads


def stage(device: RemoteDevice) -> tuple[Channel, Channel, Channel]:
    """Wire one stage by hand: return the other ends of its in-bell, of its out-bell, and of another in-bell."""
    (first, in_bell), (second, other_bell), (heard, out_bell) = pair(), pair(), pair()
    execution_on(device).wire(0, "the step", StageDescriptors([in_bell, other_bell], [out_bell]))
    return first, heard, second


def test_a_ring_without_news_is_passed_on_as_it_came(device: RemoteDevice) -> None:
    first, heard, second = stage(device)
    ring = chain_pb2.Ring(run=7, started_ns=5, deadline_ns=-1).SerializeToString()
    first.send(ring)
    second.send(ring)
    assert heard.receive() == ring


def test_what_joins_say_of_steps_is_merged(device: RemoteDevice) -> None:
    first, heard, second = stage(device)

    def ring(*steps: int) -> bytes:
        answers = [
            burst_pb2.StepAnswer(
                step=step,
                answer=burst_pb2.BurstAnswer(status=types_pb2.ERROR_STATUS_GENERAL_FAILURE, message=f"step {step}"),
            )
            for step in steps
        ]
        return chain_pb2.Ring(run=1, started_ns=5, deadline_ns=-1, steps=answers).SerializeToString()

    first.send(ring(2, 5))
    second.send(ring(2, 3))
    assert [step.step for step in chain_pb2.Ring.FromString(heard.receive()).steps] == [2, 3, 5]


@pytest.mark.parametrize("on", [0, 1, 2])
def test_garbage_on_a_bell_ends_the_stage(device: RemoteDevice, on: int) -> None:
    bells = stage(device)
    bells[on].send(b"\xff" * 30)
    if on != 1:
        bells[2 - on].send(b"\xff" * 30)
    for bell in bells:
        with pytest.raises(ChannelClosedError):
            bell.receive()


def test_a_bell_that_rings_twice_in_one_run_ends_the_stage(device: RemoteDevice) -> None:
    first, heard, _ = stage(device)
    first.send(b"\x08\x01")
    first.send(b"\x08\x02")
    with pytest.raises(ChannelClosedError):
        heard.receive()


def _bells(count: int) -> list[Descriptor]:
    return [pair()[1] for _ in range(count)]


def _stream() -> Descriptor:
    ours, theirs = socket.socketpair()
    ours.close()
    return Descriptor(theirs.detach())


REFUSED: dict[str, tuple[Callable[[], StageDescriptors], str]] = {
    "nothing": (StageDescriptors, "0 in-bells, 0 out-bells, 0 start bells, 0 end bells, no socket of calls and no"),
    "no start": (lambda: StageDescriptors((), _bells(1)), "expected either in-bells or calls"),
    "two starts": (
        lambda: StageDescriptors(_bells(1), _bells(1), calls=pair()[1]),
        "expected either in-bells or calls",
    ),
    "no end": (lambda: StageDescriptors(_bells(1)), "either out-bells or answers"),
    "two ends": (lambda: StageDescriptors(_bells(1), _bells(1), answers=pair()[1]), "either out-bells or answers"),
    "start bells": (lambda: StageDescriptors(_bells(1), _bells(1), _bells(1)), "start bells are the entry's"),
    "end bells": (lambda: StageDescriptors(_bells(1), _bells(1), (), _bells(1)), "end bells the exit's"),
    "too many": (lambda: StageDescriptors(_bells(MAX_BELLS + 1), _bells(1)), f"expected at most {MAX_BELLS} of each"),
    "a stream": (
        lambda: StageDescriptors([_stream()], _bells(1)),
        "an in-bell is no unix socket of type SOCK_SEQPACKET",
    ),
    "memory": (
        lambda: StageDescriptors(_bells(1), [create_ashmem(8).descriptor]),
        "an out-bell is no unix socket of type SOCK_SEQPACKET",
    ),
    "a small page": (
        lambda: StageDescriptors(_bells(1), _bells(1), cancelled=create_ashmem(4).descriptor),
        "the number of the cancelled run needs 8 bytes",
    ),
    "an unsealed page": (
        lambda: StageDescriptors(_bells(1), _bells(1), cancelled=Descriptor(_unsealed())),
        "not a memfd sealed against shrinking",
    ),
}


def _unsealed() -> int:
    number = os.memfd_create("test")
    os.ftruncate(number, 8)
    return number


@pytest.mark.parametrize("refused", REFUSED)
def test_what_makes_no_stage_is_refused_and_closed(device: RemoteDevice, refused: str) -> None:
    make, message = REFUSED[refused]
    execution = execution_on(device)
    before = settled(lambda: resources_of(device.pid))
    with pytest.raises(HalError, match=message) as refusal:
        execution.wire(0, "the step", make())
    assert refusal.value.status == INVALID
    assert device.usage().stages == 0
    wait_until(lambda: resources_of(device.pid).within(before), "what was handed over is closed")


def test_a_step_that_cannot_be_a_stage_is_refused(device: RemoteDevice) -> None:
    unknown = device.prepare_model(addition_of_unknown_size()).create_reusable_execution(addition_in_ashmem().request)
    with pytest.raises(HalError, match="a fenced execution needs all of them"):
        unknown.wire(0, "the step", StageDescriptors(_bells(1), _bells(1)))
    execution = execution_on(device)
    for step, name in ((-1, ""), (0, "n" * 201)):
        with pytest.raises(HalError, match=f"step {step} with a name of {len(name)} characters"):
            execution.wire(step, name, StageDescriptors(_bells(1), _bells(1)))
    execution.release()
    with pytest.raises(HalError, match=f"execution {execution.handle} does not exist"):
        execution.wire(0, "the step", StageDescriptors(_bells(1), _bells(1)))
    assert device.usage().stages == 0


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
