"""The rows of the contract about fenced executions, for every way to launch them."""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError, FenceState, create_fence
from nnhal.memory import Pool, create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, ErrorStatus, ExecutionConfig, Request
from nnhal_hosting.descriptors import MAX_LAUNCHED
from tests.support.additions import (
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    argument,
)
from tests.support.bystanders import bystander
from tests.support.entry_points import (
    ENTRY_POINTS,
    FENCED_ENTRY_POINTS,
    LAUNCH_POINTS,
    PLAIN,
    RELAUNCHES,
    Launched,
    LaunchPoint,
    Target,
    bind,
    fenced,
    fenced_with_config,
)
from tests.support.failures import lookup_beyond_the_table, lookup_model
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, MISSED, refusal
from tests.support.resources import counts_of, resources_of
from tests.support.waiting import settled, wait_until
from tests.support.wire import WireDevice

NONE = ErrorStatus.NONE
MEASURED = ExecutionConfig(measure_timing=True)
CONFIGS = [pytest.param(PLAIN, id="plain"), pytest.param(MEASURED, id="measured")]
SLOW_ELEMENTS, SLOW_OPERATIONS = 1 << 20, 400
"""The size of an execution that takes a good part of a second."""
MOMENT_NS = 20_000_000
"""Much less than such an execution takes."""


@pytest.fixture(params=LAUNCH_POINTS)
def launch(request: pytest.FixtureRequest) -> LaunchPoint:
    return LAUNCH_POINTS[request.param]


@pytest.fixture(scope="module")
def session(cpu_ref: Endpoint) -> Iterator[WireDevice]:
    """Open a session that the module's tests share."""
    with WireDevice(cpu_ref) as wire:
        yield wire


@pytest.fixture(scope="module")
def target(session: WireDevice) -> Target:
    return Target(session, session.prepare(addition_model()))


@pytest.fixture(scope="module")
def failing(session: WireDevice) -> Target:
    return Target(session, session.prepare(lookup_model()))


@pytest.fixture(scope="module")
def slow(session: WireDevice) -> Target:
    return Target(session, session.prepare(addition_model(SLOW_ELEMENTS, SLOW_OPERATIONS)))


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with WireDevice(request.getfixturevalue(request.param)) as wire:
        yield Target(wire, wire.prepare(addition_model()))


@pytest.fixture(scope="module")
def synchronous() -> Iterator[Target]:
    """Prepare the addition on a device that computes in the call that launches."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("NNHAL_DEVICE_SYNCHRONOUS_FENCES", "1")
            _, endpoint = stack.enter_context(device_process("cpu_ref", directory))
        wire = stack.enter_context(WireDevice(endpoint))
        yield Target(wire, wire.prepare(addition_model()))


def state_of(launched: Launched) -> FenceState:
    assert launched.fence is not None
    return launched.fence.state


def fence_of(launched: Launched) -> Fence:
    assert launched.fence is not None
    return launched.fence


def untouched(addition: Addition) -> bool:
    """Return whether nothing has been computed since the addition was filled."""
    return bool(np.isnan(addition.total()).all())


def relay(length: int) -> tuple[list[Request], Pool]:
    """Return additions in one pool, in which each sum is the first term of the next, and the filled pool."""
    memory = create_ashmem((2 + length) * TENSOR_BYTES)
    tensors = [argument(index * TENSOR_BYTES) for index in range(2 + length)]
    pool = open_pool(memory, writable=True)
    for index, value in enumerate((1, 10, *[np.nan] * length)):
        pool.write(index * TENSOR_BYTES, np.full(TENSOR_BYTES // 4, value, np.float32).view(np.uint8))
    firsts = [tensors[0], *tensors[2:-1]]
    requests = [
        Request((first, tensors[1]), (total,), (memory,)) for first, total in zip(firsts, tensors[2:], strict=True)
    ]
    return requests, pool


def last_of(pool: Pool) -> set[float]:
    return set(pool.read(pool.size - TENSOR_BYTES, TENSOR_BYTES).view(np.float32).tolist())


@pytest.mark.contract("FC-02", "EX-12")
@pytest.mark.parametrize("drivers", [("cpu_ref",), ("cpu_ref", "cpu_acc"), ("cpu_acc", "cpu_ref")])
def test_a_chain_of_fences_keeps_the_order_on_one_device_and_on_several(
    request: pytest.FixtureRequest, drivers: Sequence[str], launch: LaunchPoint
) -> None:
    first, held = create_fence()
    requests, pool = relay(4)
    with ExitStack() as stack:
        wires = [stack.enter_context(WireDevice(request.getfixturevalue(driver))) for driver in drivers]
        targets = [Target(wire, wire.prepare(addition_model())) for wire in wires]
        chain: list[Launched] = []
        for number, link in enumerate(requests):
            waited = fence_of(chain[-1]) if chain else held
            chain.append(launch(targets[number % len(targets)], link, [waited]))
        for launched in reversed(chain):
            refusal(launched.info, FAILURE, "not ended")
            assert state_of(launched) is FenceState.PENDING
        first.send()
        fence_of(chain[-1]).wait()
        assert last_of(pool) == {41}
        assert [launched.info().status for launched in chain] == [NONE] * 4


@pytest.mark.parametrize("launch", [fenced, fenced_with_config, RELAUNCHES["reusable, fenced"]])
def test_a_call_may_name_a_fence_many_times(target: Target, launch: Callable[..., Launched]) -> None:
    first, held = create_fence()
    addition = addition_in_ashmem()
    what = bind(target, addition.request) if launch in RELAUNCHES.values() else addition.request
    addition.fill(1, 2)
    launched = launch(target, what, [Fence(held.descriptor.duplicate()) for _ in range(40)] + [held] * 216)
    first.send()
    fence_of(launched).wait()
    np.testing.assert_array_equal(addition.total(), np.float32(3))


@pytest.mark.contract("FC-06", "FC-11")
@pytest.mark.parametrize("bound", ["duration", "deadline", "both"])
def test_a_deadline_that_passes_during_the_execution_is_missed_and_memory_is_left_alone(
    slow: Target, target: Target, launch: LaunchPoint, bound: str
) -> None:
    addition = addition_in_ashmem(SLOW_ELEMENTS)
    addition.fill(1, 2)
    duration_ns = 2**63 - 1 if bound == "deadline" else MOMENT_NS

    begun: list[Launched] = []

    def begins() -> bool:
        deadline_ns = {"duration": NO_DEADLINE, "deadline": now_ns() + MOMENT_NS, "both": 2**63 - 1}[bound]
        try:
            begun.append(launch(slow, addition.request, (), MEASURED, deadline_ns, duration_ns))
        except HalError as error:
            assert "before the work began" in error.message  # on a busy host
        return bool(begun)

    wait_until(begins, "the execution begins before its deadline")
    (launched,) = begun
    assert launched.end().status in MISSED
    assert launched.info().timing_launched == launched.info().timing_fenced == UNAVAILABLE_TIMING
    assert state_of(launched) is FenceState.ERROR
    addition.fill(3, 4)
    assert launch(target, addition_in_ashmem().request).end().status == NONE  # the only worker was free
    assert untouched(addition)


def test_a_deadline_that_passes_before_the_fences_signal_is_missed(target: Target, launch: LaunchPoint) -> None:
    late, held = create_fence()
    addition = addition_in_ashmem()
    addition.fill(1, 2)
    launched = launch(target, addition.request, [held], deadline_ns=now_ns() + 10 * MOMENT_NS)
    assert launched.end().status in MISSED
    assert state_of(launched) is FenceState.ERROR
    assert untouched(addition)
    late.send()


def test_a_deadline_that_has_passed_is_missed_persistently(target: Target, launch: LaunchPoint) -> None:
    missed = ErrorStatus.MISSED_DEADLINE_PERSISTENT
    refusal(lambda: launch(target, addition_in_ashmem().request, deadline_ns=1), missed, "had passed")


@pytest.mark.contract("FC-10")
@pytest.mark.parametrize("config", CONFIGS)
def test_an_execution_that_fails_puts_its_fence_into_error(
    failing: Target, launch: LaunchPoint, config: ExecutionConfig
) -> None:
    launched = launch(failing, lookup_beyond_the_table(), (), config)
    with pytest.raises(FenceError):
        fence_of(launched).wait()
    infos = [launched.info() for _ in range(3)]
    assert infos[0].status != NONE
    assert "EMBEDDING_LOOKUP" in infos[0].message
    assert infos[0].timing_launched == infos[0].timing_fenced == UNAVAILABLE_TIMING
    assert infos == infos[:1] * 3
    refusal(lambda: launch(failing, lookup_beyond_the_table(), [fence_of(launched)]), INVALID, "in error")


@pytest.mark.contract("EX-11", "FC-01", "EX-02", "EX-13")
@pytest.mark.parametrize("config", CONFIGS)
def test_a_device_that_computes_in_the_call_returns_no_fence_and_has_the_result(
    synchronous: Target, launch: LaunchPoint, config: ExecutionConfig
) -> None:
    addition = addition_in_ashmem()
    addition.fill(1, 2)
    done, signalled = create_fence()
    done.send()
    launched = launch(synchronous, addition.request, [signalled], config)
    assert launched.fence is None
    info = launched.info()
    np.testing.assert_array_equal(addition.total(), np.float32(3))
    assert info.status == NONE
    assert (info.timing_launched == UNAVAILABLE_TIMING) == (config is PLAIN)


@pytest.mark.contract("FC-10")
def test_a_device_that_computes_in_the_call_fails_the_call(synchronous: Target, launch: LaunchPoint) -> None:
    wire = synchronous.wire
    failing = Target(wire, wire.prepare(lookup_model()))
    refusal(lambda: launch(failing, lookup_beyond_the_table()), refused_synchronously(failing), "EMBEDDING_LOOKUP")
    late, held = create_fence()
    moment = now_ns() + 10 * MOMENT_NS
    missed = ErrorStatus.MISSED_DEADLINE_TRANSIENT
    refusal(lambda: launch(synchronous, addition_in_ashmem().request, [held], deadline_ns=moment), missed, "in time")
    late.send()


def refused_synchronously(target: Target) -> ErrorStatus:
    with pytest.raises(HalError) as caught:
        ENTRY_POINTS["sync"](target, lookup_beyond_the_table(), PLAIN, NO_DEADLINE)
    return caught.value.status


@pytest.mark.contract("EX-13", "EX-02", "EX-03")
def test_times_since_the_launch_include_those_since_the_fences(any_target: Target, launch: LaunchPoint) -> None:
    first, held = create_fence()
    request = addition_in_ashmem().request
    measured = launch(any_target, request, [held], MEASURED)
    plain = launch(any_target, addition_in_ashmem().request, [held], PLAIN)
    refusal(measured.info, FAILURE)
    first.send()
    info = measured.end()
    since_launch, since_fences = info.timing_launched, info.timing_fenced
    for timing in (since_launch, since_fences):
        assert 0 <= timing.time_on_device_ns <= timing.time_in_driver_ns
    assert since_fences.time_on_device_ns <= since_launch.time_on_device_ns
    assert since_fences.time_in_driver_ns < since_launch.time_in_driver_ns
    info = plain.end()
    assert info.timing_launched == info.timing_fenced == UNAVAILABLE_TIMING


@pytest.mark.parametrize("name", ["fenced", "reusable, launch channel"])
def test_the_number_of_executions_in_flight_is_limited_per_session(
    cpu_ref: Endpoint, device: RemoteDevice, target: Target, name: str
) -> None:
    launch = LAUNCH_POINTS[name]
    first, held = create_fence()
    with WireDevice(cpu_ref) as wire, bystander(cpu_ref):
        full = Target(wire, wire.prepare(addition_model()))
        request = addition_in_ashmem().request
        launched = [launch(full, request, [held]) for _ in range(MAX_LAUNCHED)]
        assert device.usage().launched == MAX_LAUNCHED
        exhausted = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        untried = addition_in_ashmem()
        untried.fill(1, 2)
        refusal(
            lambda: launch(full, untried.request), exhausted, f"holds {MAX_LAUNCHED} of the {MAX_LAUNCHED} that it may"
        )
        for entry in ENTRY_POINTS.values():
            entry(full, addition_in_ashmem().request, PLAIN, NO_DEADLINE)
        for entry in FENCED_ENTRY_POINTS.values():
            entry(target, addition_in_ashmem().request, PLAIN, NO_DEADLINE)
        assert untouched(untried)
        first.send()
        assert {one.end().status for one in launched[:-3]} == {NONE}
        untried.check(lambda: launch(full, untried.request).end(), 1, 2)
    wait_until(lambda: device.usage().launched == 0, "all of them have ended")


def test_a_session_that_ends_while_its_execution_runs_leaves_nothing(
    cpu_ref: Endpoint, device: RemoteDevice, launch: LaunchPoint
) -> None:
    before, resources = settled(lambda: counts_of(device.usage(), "sessions")), resources_of(device.pid)
    leaver = WireDevice(cpu_ref)
    leaving = Target(leaver, leaver.prepare(addition_model(SLOW_ELEMENTS, SLOW_OPERATIONS)))
    launched = launch(leaving, addition_in_ashmem(SLOW_ELEMENTS).request)
    leaver.close()
    with suppress(FenceError):
        fence_of(launched).wait()
    wait_until(lambda: counts_of(device.usage(), "sessions") == before, "everything is released")
    wait_until(lambda: resources_of(device.pid).within(resources), "its descriptors are closed")


def test_a_launch_refuses_a_socket_on_which_the_end_of_the_signaller_is_not_seen(
    target: Target, launch: LaunchPoint
) -> None:
    request, (signaller, end) = addition_in_ashmem().request, socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    fence = Fence(Descriptor(end.detach()))
    refusal(lambda: launch(target, request, [fence]), INVALID, "SOCK_DGRAM, on which the end .* is not seen")
    signaller.close()


@pytest.mark.parametrize("launch", [fenced, fenced_with_config, LAUNCH_POINTS["reusable, fenced"]])
def test_a_launch_whose_fence_cannot_be_handed_over_is_not_executed(
    cpu_ref: Endpoint, device: RemoteDevice, target: Target, launch: LaunchPoint
) -> None:
    with WireDevice(cpu_ref) as wire:
        full = Target(wire, wire.prepare(addition_model()))
        addition = addition_in_ashmem()
        launch(full, addition.request).end()
        addition.fill(1, 2)
        filler = Descriptor(os.memfd_create("filler"))
        with pytest.raises(HalError, match="descriptors"):
            while True:
                wire.link.put([filler] * 16)
        with pytest.raises(HalError, match="descriptors"):
            while True:
                wire.link.put([filler])
        exhausted = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        refusal(lambda: launch(full, addition.request), exhausted, "takes 1 descriptors at device")
        assert device.usage().launched == 0
        launch(target, addition_in_ashmem().request).end()  # the only worker takes them in order
        assert untouched(addition)


def test_a_device_that_dies_fails_the_fences_that_it_owes(short_path: Path, any_target: Target) -> None:
    _, held = create_fence()
    with device_process("cpu_ref", short_path) as (process, endpoint), WireDevice(endpoint) as wire:
        dying = Target(wire, wire.prepare(addition_model()))
        owed = [launch(dying, addition_in_ashmem().request, [held]) for launch in LAUNCH_POINTS.values()]
        dependent = [
            launch(any_target, addition_in_ashmem().request, [fence_of(owed[-1])]) for launch in LAUNCH_POINTS.values()
        ]
        assert {state_of(launched) for launched in owed + dependent} == {FenceState.PENDING}
        os.kill(process.pid, signal.SIGKILL)
        for launched in owed + dependent:
            with pytest.raises(FenceError):
                fence_of(launched).wait()
        for info in [launched.info() for launched in dependent]:
            assert info.status == FAILURE
            assert re.fullmatch(r"(the fence of descriptor \d+|fence 0 of the call) is in error", info.message)


def test_a_device_that_is_stopped_cancels_waiting_executions(short_path: Path) -> None:
    _, held = create_fence()
    with device_process("cpu_ref", short_path) as (process, endpoint), WireDevice(endpoint) as wire:
        target = Target(wire, wire.prepare(addition_model()))
        owed = [launch(target, addition_in_ashmem().request, [held]) for launch in LAUNCH_POINTS.values()]
        assert process.stop(60) == 0
        for launched in owed:
            with pytest.raises(FenceError):
                fence_of(launched).wait()
