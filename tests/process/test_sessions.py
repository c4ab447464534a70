"""Objects that a session owns (memory, prepared models, executions and bursts), and their release."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.types import NO_SPAN, Ashmem, ExecutionConfig, FencedExecutionInfo, Memory, Request
from nnhal.v1 import buffer_pb2, burst_pb2, execution_pb2
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from tests.support.additions import (
    ELEMENTS,
    POOL_BYTES,
    POOL_KINDS,
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    addition_of_any_size,
    addition_of_constant,
    argument,
)
from tests.support.refusals import INVALID, refusal
from tests.support.resources import resources_of
from tests.support.waiting import wait_until
from tests.support.wire import WireDevice

Run = Callable[[], object]
Way = Callable[[RemoteDevice, Request], Run]


def synchronously(device: RemoteDevice, request: Request) -> Run:
    prepared = device.prepare_model(addition_model())
    return lambda: prepared.execute(request)


def reusably(device: RemoteDevice, request: Request) -> Run:
    return device.prepare_model(addition_model()).create_reusable_execution(request).execute


def in_a_burst(device: RemoteDevice, request: Request) -> Run:
    burst = device.prepare_model(addition_model()).configure_execution_burst()
    return lambda: burst.execute(request, range(len(request.pools)))


def reusably_in_a_burst(device: RemoteDevice, request: Request) -> Run:
    prepared = device.prepare_model(addition_model())
    burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(request)
    return lambda: burst.run(execution)


WAYS: list[Way] = [synchronously, reusably, in_a_burst, reusably_in_a_burst]


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as device:
        yield device


@pytest.mark.contract("RE-01", "RE-05", "BU-02")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", POOL_KINDS)
def test_every_kind_of_pool_works_with_every_way_to_execute(
    any_device: RemoteDevice, kind: str, way: Way, tmp_path: Path
) -> None:
    addition = Addition(POOL_KINDS[kind](POOL_BYTES, tmp_path))
    run = way(any_device, addition.request)
    staged_before = any_device.usage().staged_bytes
    addition.check(run, 1, 2)
    addition.check(run, -3.5, 40)
    staged = any_device.usage().staged_bytes - staged_before
    assert staged == (2 * POOL_BYTES if kind == "unsealed file" else 0)


def test_a_burst_reports_what_was_staged_for_each_execution(any_device: RemoteDevice, tmp_path: Path) -> None:
    prepared = any_device.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    for kind, make in POOL_KINDS.items():
        request = Addition(make(POOL_BYTES, tmp_path)).request
        outcomes = [burst.execute(request, [-1]), burst.run(prepared.create_reusable_execution(request))]
        staged = POOL_BYTES if kind == "unsealed file" else 0
        assert [outcome.staged_bytes for outcome in outcomes] == [staged, staged], kind
        assert all((outcome.staging_ns > 0) == (staged > 0) for outcome in outcomes)


def test_a_measured_execution_reports_when_it_ran_and_when_it_copied(any_device: RemoteDevice, tmp_path: Path) -> None:
    prepared = any_device.prepare_model(addition_model())
    burst, launcher = prepared.configure_execution_burst(), any_device.open_launcher()
    for kind, make in POOL_KINDS.items():
        request = Addition(make(POOL_BYTES, tmp_path)).request
        execution = prepared.create_reusable_execution(request, ExecutionConfig(measure_timing=True))
        copied = [(False, 2 * TENSOR_BYTES), (True, TENSOR_BYTES)] if kind == "unsealed file" else []

        def launched(execution: RemoteExecution = execution) -> FencedExecutionInfo:
            fence = launcher.launch(execution)
            if fence is not None:
                fence.wait()
            return launcher.info(execution)

        for run in (partial(burst.run, execution), launched):
            before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            outcome = run()
            after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            assert [(copy.is_output, copy.bytes) for copy in outcome.copies] == copied, kind
            copies = [instant for copy in outcome.copies for instant in (copy.started_ns, copy.ended_ns)]
            instants = [before, outcome.span.started_ns, *copies, outcome.span.ended_ns, after]
            assert instants == sorted(instants), kind
            assert outcome.staging_ns == sum(copy.ended_ns - copy.started_ns for copy in outcome.copies)
    launcher.close()


def test_an_unmeasured_execution_reports_no_times(any_device: RemoteDevice, tmp_path: Path) -> None:
    prepared = any_device.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    for make in POOL_KINDS.values():
        execution = prepared.create_reusable_execution(Addition(make(POOL_BYTES, tmp_path)).request)
        assert burst.run(execution)[3:] == (NO_SPAN, ())
        launched = execution.execute_fenced()
        if launched.fence is not None:
            launched.fence.wait()
        assert (launched.info().span, launched.info().copies) == (NO_SPAN, ())


def test_an_argument_that_a_device_cannot_use_in_place_is_staged(cpu_acc: Endpoint) -> None:
    addition, elsewhere = addition_in_ashmem(), create_ashmem(2 * TENSOR_BYTES)
    request = Request(addition.request.inputs, (argument(4, pool=1),), (*addition.request.pools, elsewhere))
    addition.fill(1, 2)
    with RemoteDevice(cpu_acc, "test") as device:
        burst = device.prepare_model(addition_model()).configure_execution_burst()
        assert burst.execute(request, [-1, -1]).staged_bytes == TENSOR_BYTES  # cpu_acc imports at multiples of 64
    np.testing.assert_array_equal(tensor_in(elsewhere, 4), np.float32(3))


def tensor_in(memory: Memory, offset: int = 0) -> object:
    return open_pool(memory, writable=False).read(offset, TENSOR_BYTES).view(np.float32)


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_constants_may_lie_in_any_pool(any_device: RemoteDevice, kind: str, tmp_path: Path) -> None:
    weights = POOL_KINDS[kind](POOL_BYTES, tmp_path)
    pool = open_pool(weights, writable=True)
    pool.write(TENSOR_BYTES, np.full(ELEMENTS, 7, np.float32).view(np.uint8))
    prepared = any_device.prepare_model(addition_of_constant(weights, offset=TENSOR_BYTES))
    addition = addition_in_ashmem()
    addition.fill(1, 0)
    prepared.execute(addition.of_one_term)
    np.testing.assert_array_equal(addition.total(), np.float32(8))


def test_an_output_that_is_longer_than_the_result_does_not_leak_memory_of_the_process(
    device: RemoteDevice, tmp_path: Path
) -> None:
    elements = 1 << 14
    addition = Addition(create_file(tmp_path / "pool", 3 * 4 * elements), elements)
    burst = device.prepare_model(addition_of_any_size()).configure_execution_burst()

    def sized(elements: int) -> Request:
        inputs = tuple(
            replace(a, location=replace(a.location, length=4 * elements), dimensions=(elements,))
            for a in addition.request.inputs
        )
        return replace(addition.request, inputs=inputs)

    for _ in range(5):  # sooner or later, an output would show memory that the process used before
        addition.check(lambda: burst.execute(sized(elements), [-1]), 7, 7)
        addition.fill(7, 7)
        burst.execute(sized(ELEMENTS), [-1])
        np.testing.assert_array_equal(addition.total()[:ELEMENTS], np.float32(14))
        assert not addition.total()[ELEMENTS:].any()


def test_handles_and_descriptors_of_another_session_are_unknown(wire: WireDevice, device: RemoteDevice) -> None:
    addition = addition_in_ashmem()
    prepared = device.prepare_model(addition_model())
    execution = prepared.create_reusable_execution(addition.request)
    burst = prepared.configure_execution_burst()
    for method, call in calls_that_use_objects(wire, prepared.handle, execution.handle, burst.handle):
        refusal(partial(wire.call, method, call), INVALID, "does not exist in this session")
    own, handle = wire.request(addition.request), wire.prepare(addition_model())
    own.pools[0].pool.ashmem.descriptor_id += 1
    message = prepared_pb2.CreateReusableExecutionRequest(prepared_model=handle, request=own)
    refusal(partial(wire.call, wire.prepared_model.CreateReusableExecution, message), INVALID, "was not put")
    addition.check(execution.execute, 1, 1)


def calls_that_use_objects(
    wire: WireDevice, prepared: int, execution: int, burst: int
) -> list[tuple[Callable[..., Any], Message]]:
    """Return each call that uses an object, with nothing but the handle."""
    model, run, stream = wire.prepared_model, wire.execution, wire.burst
    return [
        (
            model.ExecuteSynchronously,
            prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest(prepared_model=prepared),
        ),
        (
            model.ExecuteSynchronouslyWithConfig,
            prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(prepared_model=prepared),
        ),
        (model.ExecuteFenced, prepared_pb2.PreparedModelServiceExecuteFencedRequest(prepared_model=prepared)),
        (
            model.ExecuteFencedWithConfig,
            prepared_pb2.PreparedModelServiceExecuteFencedWithConfigRequest(prepared_model=prepared),
        ),
        (model.CreateReusableExecution, prepared_pb2.CreateReusableExecutionRequest(prepared_model=prepared)),
        (model.ConfigureExecutionBurst, prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=prepared)),
        (run.ExecuteSynchronously, execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(execution=execution)),
        (run.ExecuteFenced, execution_pb2.ExecutionServiceExecuteFencedRequest(execution=execution)),
        (stream.ExecuteSynchronously, burst_pb2.BurstServiceExecuteSynchronouslyRequest(burst=burst)),
        (
            stream.ExecuteSynchronouslyWithConfig,
            burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest(burst=burst),
        ),
        (stream.ReleaseMemoryResource, burst_pb2.ReleaseMemoryResourceRequest(burst=burst)),
        (wire.buffer.CopyFrom, buffer_pb2.CopyFromRequest(buffer=1)),
        (wire.buffer.CopyTo, buffer_pb2.CopyToRequest(buffer=1)),
        (wire.callback.GetExecutionInfo, callback_pb2.GetExecutionInfoRequest(callback=1)),
    ]


def test_released_objects_are_unknown_and_releasing_them_again_is_ignored(device: RemoteDevice) -> None:
    addition = addition_in_ashmem()
    before = holdings(device)
    prepared = device.prepare_model(addition_model())
    execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
    assert objects(device) == (1, 1, 1)
    for _ in range(2):
        execution.release()
        prepared.release()
        burst.close()
    refusal(lambda: prepared.execute(addition.request), INVALID, "was released")
    refusal(execution.execute, INVALID, "was released")
    wait_until(lambda: objects(device) == (0, 0, 0) and holdings(device) == before, "everything is released")


def objects(device: RemoteDevice) -> tuple[int, int, int]:
    usage = device.usage()
    return usage.prepared_models, usage.executions, usage.bursts


def holdings(device: RemoteDevice) -> tuple[int, int]:
    usage = device.usage()
    return usage.mappings, usage.mapped_bytes


def test_objects_keep_memory_that_the_client_closes(any_device: RemoteDevice) -> None:
    addition = addition_in_ashmem()
    execution = any_device.prepare_model(addition_model()).create_reusable_execution(addition.request)
    (memory,) = addition.request.pools
    assert isinstance(memory, Ashmem)
    memory.descriptor.close()
    addition.check(execution.execute, 1, 2)


def test_closing_a_session_releases_everything(cpu_ref: Endpoint, device: RemoteDevice, tmp_path: Path) -> None:
    before, resources = device.usage(), resources_of(device.pid)
    leaver = RemoteDevice(cpu_ref, "leaver")
    kept = []
    for make in POOL_KINDS.values():
        addition = Addition(make(POOL_BYTES, tmp_path))
        prepared = leaver.prepare_model(addition_of_constant(make(POOL_BYTES, tmp_path)))
        burst = prepared.configure_execution_burst()
        burst.execute(addition.of_one_term, [0])
        kept += [prepared, prepared.create_reusable_execution(addition.of_one_term), burst]
    usage = device.usage()
    assert (usage.sessions, usage.prepared_models, usage.executions, usage.bursts) == (before.sessions + 1, 4, 4, 4)
    assert usage.mappings > before.mappings
    assert usage.descriptors > before.descriptors
    leaver.close()
    expected = (before.sessions, before.descriptors, before.mappings, before.mapped_bytes, 0, 0, 0)
    wait_until(lambda: held(device) == expected, "the session is released")
    wait_until(lambda: resources_of(device.pid).within(resources), "its descriptors are closed")


def held(device: RemoteDevice) -> tuple[int, ...]:
    usage = device.usage()
    return (usage.sessions, usage.descriptors, usage.mappings, usage.mapped_bytes, *objects(device))
