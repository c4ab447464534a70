"""What a device tells of the memory that it stages for executions, and of what a session has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.types import NO_SPAN, ExecutionConfig, FencedExecutionInfo, Memory, Request
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
from tests.support.resources import resources_of
from tests.support.waiting import wait_until


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as device:
        yield device


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


def objects(device: RemoteDevice) -> tuple[int, int, int]:
    usage = device.usage()
    return usage.prepared_models, usage.executions, usage.bursts


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
