"""The rows of the contract about bursts, over gRPC and over the channel."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from nnhal.codec import error_from_rpc
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.types import NO_DEADLINE, ErrorStatus, Request
from nnhal.v1 import burst_pb2, execution_pb2
from tests.support.additions import TENSOR_BYTES, addition_in_ashmem, addition_model, argument
from tests.support.entry_points import BURST_ENTRY_POINTS, PLAIN, BurstEntryPoint, Target, bind
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until
from tests.support.wire import WireDevice

SLOW_ELEMENTS, SLOW_OPERATIONS = 1 << 20, 400
"""The size of an execution that takes a good part of a second."""


@pytest.fixture(params=BURST_ENTRY_POINTS)
def entry(request: pytest.FixtureRequest) -> BurstEntryPoint:
    return BURST_ENTRY_POINTS[request.param]


@pytest.fixture
def target(wire: WireDevice) -> Target:
    return Target(wire, wire.prepare(addition_model()))


@pytest.fixture(scope="module")
def slow(cpu_ref: Endpoint) -> Iterator[Target]:
    with WireDevice(cpu_ref) as wire:
        yield Target(wire, wire.prepare(addition_model(SLOW_ELEMENTS, SLOW_OPERATIONS)))


def in_three_pools() -> tuple[Request, Callable[[float, float], None], Callable[[], float]]:
    """Return a request of an addition with a pool for each tensor, and functions that fill it and read the sum."""
    pools = tuple(create_ashmem(TENSOR_BYTES) for _ in range(3))
    first, second, total = (open_pool(pool, writable=True) for pool in pools)

    def fill(a: float, b: float) -> None:
        for pool, value in ((first, a), (second, b), (total, np.nan)):
            pool.write(0, np.full(TENSOR_BYTES // 4, value, np.float32).view(np.uint8))

    def read() -> float:
        (value,) = set(total.read(0, TENSOR_BYTES).view(np.float32).tolist())
        return float(value)

    return Request((argument(0, pool=0), argument(0, pool=1)), (argument(0, pool=2),), pools), fill, read


def releases(target: Target) -> list[Callable[[int], object]]:
    """Return releaseMemoryResource over gRPC and over the channel."""

    def message(token: int) -> burst_pb2.ReleaseMemoryResourceRequest:
        return burst_pb2.ReleaseMemoryResourceRequest(burst=target.burst.handle, memory_identifier_token=token)

    return [
        lambda token: target.wire.call(target.wire.burst.ReleaseMemoryResource, message(token)),
        lambda token: target.burst.exchange(burst_pb2.BurstCall(release_memory_resource=message(token))),
    ]


def test_released_memory_is_unmapped(target: Target, device: RemoteDevice) -> None:
    request, *_ = in_three_pools()
    before = device.usage().mappings
    BURST_ENTRY_POINTS["burst, channel"](target, request, (0, 1, 2), PLAIN, NO_DEADLINE)
    assert device.usage().mappings == before + 3
    release = releases(target)[1]
    for left, token in ((2, 0), (1, 1), (0, 2)):
        release(token)
        assert device.usage().mappings == before + left


@pytest.mark.contract("BU-08", "BU-09")
def test_releasing_memory_and_a_second_execution_do_not_disturb_a_running_one(slow: Target) -> None:
    addition = addition_in_ashmem(SLOW_ELEMENTS)
    addition.fill(1, 2)
    bound, stub = bind(slow, addition.request), slow.wire.burst
    first = stub.ExecuteSynchronously.future(
        slow.burst_plain(addition.request, (0,), PLAIN, NO_DEADLINE), metadata=slow.wire.metadata
    )
    nothing = Request((), (), ())  # it would be INVALID_ARGUMENT if the burst were free
    calls: list[Callable[[], object]] = [
        partial(entry, slow, nothing, (), PLAIN, NO_DEADLINE) for entry in BURST_ENTRY_POINTS.values()
    ]
    wait_until(lambda: status_of(calls[0]) == FAILURE, "the execution runs")
    run = burst_pb2.BurstRun(execution=bound, deadline_ns=NO_DEADLINE)
    calls.append(partial(slow.burst.exchange, burst_pb2.BurstCall(run=run)))
    for call in calls:
        refusal(call, FAILURE, "one at a time")
    for release in releases(slow):
        release(0)
    assert not first.done()
    assert first.result().result.output_sufficient_size
    np.testing.assert_array_equal(addition.total(), np.float32(1 + 2 * SLOW_OPERATIONS))
    refusal(calls[0], INVALID, "0 inputs")


def status_of(call: Callable[[], object]) -> ErrorStatus:
    with pytest.raises(HalError) as caught:
        call()
    return caught.value.status


@pytest.mark.contract("RE-04")
def test_one_of_two_simultaneous_runs_of_one_execution_fails(slow: Target) -> None:
    addition = addition_in_ashmem(SLOW_ELEMENTS)
    addition.fill(1, 2)
    message = execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(
        execution=bind(slow, addition.request), deadline_ns=NO_DEADLINE
    )
    stub = slow.wire.execution
    runs = [stub.ExecuteSynchronously.future(message, metadata=slow.wire.metadata) for _ in range(2)]
    (error,) = [error for run in runs if (error := run.exception()) is not None]
    assert isinstance(error, grpc.RpcError)
    refused = error_from_rpc(error, "")
    assert isinstance(refused, HalError)
    assert refused.status == FAILURE
    np.testing.assert_array_equal(addition.total(), np.float32(1 + 2 * SLOW_OPERATIONS))


def test_two_bursts_of_one_prepared_model_run_at_the_same_time(slow: Target, cpu_ref: Endpoint) -> None:
    additions = [addition_in_ashmem(SLOW_ELEMENTS) for _ in range(2)]
    targets = [slow, Target(slow.wire, slow.prepared)]
    for addition, target in zip(additions, targets, strict=True):
        addition.fill(2, 1)
        message = target.burst_plain(addition.request, (0,), PLAIN, NO_DEADLINE)
        target.burst.channel.send(burst_pb2.BurstCall(execute=message).SerializeToString())
    for addition, target in zip(additions, targets, strict=True):
        assert burst_pb2.BurstAnswer.FromString(target.burst.channel.receive()).status == 0
        np.testing.assert_array_equal(addition.total(), np.float32(2 + SLOW_OPERATIONS))


@pytest.mark.contract("BU-13")
@pytest.mark.parametrize("driver", ["cpu_ref", "cpu_acc"])
def test_another_pool_under_a_known_token_is_checked_against_its_own_size(
    request: pytest.FixtureRequest, driver: str, entry: BurstEntryPoint
) -> None:
    with WireDevice(request.getfixturevalue(driver)) as wire:
        target = Target(wire, wire.prepare(addition_model()))
        small, large = addition_in_ashmem(), create_ashmem(1 << 20)
        small.check(lambda: entry(target, small.request, (0,), PLAIN, NO_DEADLINE), 1, 2)
        end = (1 << 20) - TENSOR_BYTES
        far = Request(small.request.inputs, (argument(end),), (large,))
        refusal(lambda: entry(target, far, (0,), PLAIN, NO_DEADLINE), INVALID, "has 192 bytes")
        near = Request(small.request.inputs, small.request.outputs, (large,))
        small.check(lambda: entry(target, near, (0,), PLAIN, NO_DEADLINE), 3, 4)


def test_a_token_of_memory_that_was_only_read_also_serves_a_later_output(
    target: Target, entry: BurstEntryPoint
) -> None:
    request, fill, total = in_three_pools()
    first, second, third = request.pools
    backwards = Request(request.inputs, request.outputs, (second, third, first))
    fill(1, 2)
    entry(target, request, (0, 1, 2), PLAIN, NO_DEADLINE)
    assert total() == 3
    entry(target, backwards, (1, 2, 0), PLAIN, NO_DEADLINE)  # first = second + total
    entry(target, request, (0, 1, 2), PLAIN, NO_DEADLINE)
    assert total() == 7


def test_a_burst_of_a_dead_device_reports_its_death(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        prepared = device.prepare_model(addition_model())
        burst, addition = prepared.configure_execution_burst(), addition_in_ashmem()
        execution = prepared.create_reusable_execution(addition.request)
        addition.check(lambda: burst.run(execution), 1, 2)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(DeadObjectError):
            while True:
                burst.run(execution)
        with pytest.raises(DeadObjectError):
            execution.execute()
        wait_until(lambda: device.gone, "the link has ended")
