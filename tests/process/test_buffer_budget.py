"""Buffers in a device whose memory is small, and values that no buffer holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nnhal.extensions import extension_code
from nnhal.extensions.onnx import NAME, PREFIX
from nnhal.fence import FenceError, create_fence
from nnhal.remote import RemoteDevice
from nnhal.types import ExtensionNameAndPrefix, Model, Operand, OperandLifeTime
from tests.support.bystanders import bystander
from tests.support.device_memory import (
    COUNT,
    FLOAT32,
    OPEN,
    SHAPE,
    TWICE,
    adding,
    allocate,
    contents,
    doubling,
    given,
    inside,
    memory_with,
    request_of,
    require_nothing_in,
    twice,
)
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import SECONDS, wait_until

FULL = "bytes do not fit the device's memory: .*NNHAL_DEVICE_BUFFER_BYTES"


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def small_device(
    request: pytest.FixtureRequest, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RemoteDevice]:
    """A device with memory for four tensors of one session: its process and it leave an eighth to others each."""
    monkeypatch.setenv("NNHAL_DEVICE_BUFFER_BYTES", str(4 * FLOAT32.size * 64 // 49 + 2))
    with device_process(request.param, short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as session:
        yield session


def test_allocating_more_memory_than_the_device_has_fails_and_harms_no_other_buffer(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(adding(FLOAT32, OPEN))
    with bystander(small_device.endpoint) as other:
        kept = allocate(other.device, other.device.prepare_model(adding(FLOAT32)), [0])
        kept.copy_from(memory_with(FLOAT32.values(1)))
        mine = allocate(small_device, prepared, [0], [0], TWICE)
        for dimensions in (TWICE, (2**31 - 1, 32, 32, 8)):
            refusal(partial(allocate, small_device, prepared, [0], dimensions=dimensions), FAILURE, FULL)
        growing = allocate(small_device, prepared, [0], [0])
        refusal(lambda: growing.copy_from(memory_with(FLOAT32.values(1, 2 * COUNT)), TWICE), FAILURE, FULL)
        growing.copy_from(memory_with(FLOAT32.values(2)), SHAPE)
        words = "all clients together hold 131072"
        refusal(lambda: growing.copy_from(memory_with(FLOAT32.values(1, 2 * COUNT)), TWICE), FAILURE, words)
        require_nothing_in(growing)
        assert contents(kept).tolist() == FLOAT32.values(1).tolist()
        mine.release()
        growing.copy_from(memory_with(FLOAT32.values(3, 2 * COUNT)), TWICE)
        assert contents(growing, count=2 * COUNT).tolist() == FLOAT32.values(3, 2 * COUNT).tolist()
        assert small_device.usage().buffer_bytes == 3 * FLOAT32.size


def test_the_memory_of_a_session_that_has_ended_is_free_again(small_device: RemoteDevice) -> None:
    for _ in range(3):
        with RemoteDevice(small_device.endpoint, "test") as session:
            prepared = session.prepare_model(adding(FLOAT32))
            buffers = [allocate(session, prepared, [0]) for _ in range(4)]
            refusal(partial(allocate, session, prepared, [0]), FAILURE, "NNHAL_DEVICE_BUFFER_BYTES")
            usage = small_device.usage()
            assert (usage.buffers, usage.buffer_bytes) == (len(buffers), 4 * FLOAT32.size)
        wait_until(lambda: small_device.usage().buffer_bytes == 0, "the memory is released")
        assert small_device.usage().buffers == 0


def test_the_memory_of_failed_executions_is_free_again(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(adding(FLOAT32, OPEN))
    missing = request_of([inside(2**40), inside(2**40)], [inside(2**40)])
    for _ in range(5):
        full = allocate(small_device, prepared, [0], [0], (3, *SHAPE[1:]))
        other = allocate(small_device, prepared, [1], [0])
        request = request_of([inside(full, (3, *SHAPE[1:])), given(1, 3)], [inside(other)])
        execution = prepared.create_reusable_execution(request)
        refusal(lambda: prepared.execute(missing), INVALID)
        refusal(execution.execute, FAILURE, "input 0 is an uninitialised buffer")
        full.copy_from(memory_with(FLOAT32.values(1, 3 * COUNT)))
        refusal(execution.execute, FAILURE, "do not fit the device's memory")
        signal, fence = create_fence()
        launched = prepared.execute_fenced(request_of([given(1), given(1)], [inside(other, SHAPE)]), [fence])
        signal.fail()
        assert launched.fence is not None
        with pytest.raises(FenceError):
            launched.fence.wait(SECONDS)
        for item in (launched, execution, full, other):
            item.release()


@pytest.mark.contract("MD-60")
def test_a_result_that_exceeds_the_devices_memory_is_a_failure(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(doubling(FLOAT32, OPEN))
    buffer = allocate(small_device, prepared, (), [0])
    burst = prepared.configure_execution_burst()
    for run in (prepared.execute, burst.execute):
        run(request_of([given(1)], [inside(buffer)]))
        assert contents(buffer).tolist() == twice(1)
        large = request_of([given(1, 5)], [inside(buffer)])
        refusal(partial(run, large), FAILURE, "do not fit the device's memory")
        require_nothing_in(buffer)


def with_input_of_an_extension() -> Model:
    """An addition, and a further input of a type that is not the HAL's own."""
    model = adding(FLOAT32)
    main = model.main
    whole_numbers = Operand(extension_code(PREFIX, 7), (4,), lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    main = replace(
        main, operands=(*main.operands, whole_numbers), input_indexes=(*main.input_indexes, len(main.operands))
    )
    return replace(model, main=main, extension_name_to_prefix=(ExtensionNameAndPrefix(NAME, PREFIX),))


def test_values_of_extensions_cannot_be_in_device_memory(device: RemoteDevice) -> None:
    prepared = device.prepare_model(with_input_of_an_extension())
    refusal(lambda: allocate(device, prepared, [2]), FAILURE, "values of type 7 of nnhal.onnx")
    refusal(lambda: allocate(device, prepared, [2], dimensions=(5,)), INVALID, "the memory would have")
    assert allocate(device, prepared, [0]).token > 0
