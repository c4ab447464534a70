"""The rows of the contract about device buffers in fenced executions, between the launch and the signal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.fence import FenceError, FenceState, create_fence
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import BufferRole, ErrorStatus, Request
from tests.support.device_memory import (
    FENCED,
    FLOAT32,
    OPEN,
    PATIENT,
    SHAPE,
    TWICE,
    Place,
    adding,
    allocate,
    contents,
    doubling,
    doubling_while_told,
    everything_given_back,
    fill,
    given,
    inside,
    is_busy,
    memory_with,
    request_of,
    require_nothing_in,
    result_in,
    room,
    twice,
    write,
)
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def nothing_is_left(cpu_ref: Endpoint) -> Iterator[None]:
    with everything_given_back(cpu_ref):
        yield


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as session:
        yield session


@pytest.fixture
def doubler(any_device: RemoteDevice) -> RemotePreparedModel:
    return any_device.prepare_model(doubling(FLOAT32))


@pytest.mark.contract("MD-62")
def test_a_launch_with_invalid_buffers_is_refused_at_once(
    any_device: RemoteDevice, doubler: RemotePreparedModel
) -> None:
    _, fence = create_fence()
    other = any_device.prepare_model(doubling(FLOAT32))
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    empty, foreign = allocate(any_device, doubler, [0], [0]), allocate(any_device, other, [0], [0])
    fixed = allocate(any_device, prepared, [0], [0], SHAPE)
    fill(fixed, 1)
    refused: list[tuple[RemotePreparedModel, Request, ErrorStatus, str]] = [
        (doubler, request_of([inside(empty)], [room()]), FAILURE, "uninitialised"),
        (doubler, request_of([inside(foreign)], [room()]), INVALID, "no such role"),
        (doubler, request_of([given(1)], [inside(foreign)]), INVALID, "no such role"),
        (doubler, request_of([inside(empty)], [inside(empty)]), INVALID, "another argument"),
        (prepared, request_of([inside(fixed, TWICE)], [room(2)]), INVALID, "the buffer has .1, 32"),
        (prepared, request_of([given(1, 2)], [inside(fixed, TWICE)]), INVALID, "the buffer has .1, 32"),
    ]
    for model, request, status, words in refused:
        refusal(partial(model.execute_fenced, request, [fence]), status, words)
        assert any_device.usage().launched == 0
    assert contents(fixed).tolist() == FLOAT32.values(1).tolist()


@pytest.mark.contract("MD-62", "FC-12")
def test_the_output_of_a_launched_execution_is_in_the_buffer_when_its_fence_signals(
    any_device: RemoteDevice, doubler: RemotePreparedModel
) -> None:
    buffer = allocate(any_device, doubler, [0], [0])
    signal, fence = create_fence()
    launched = doubler.execute_fenced(request_of([given(1)], [inside(buffer)]), [fence])
    require_nothing_in(buffer)
    signal.send()
    wait(launched)
    assert contents(buffer).tolist() == twice(1)


def wait(launched: RemoteFencedExecution) -> None:
    if launched.fence is not None:
        launched.fence.wait(30)
    info = launched.info()
    assert info.status == ErrorStatus.NONE, info.message


@pytest.mark.contract("MD-62")
def test_launches_can_be_chained_over_buffers_that_are_still_empty(
    any_device: RemoteDevice, doubler: RemotePreparedModel
) -> None:
    first, second = (allocate(any_device, doubler, [0], [0]) for _ in range(2))
    result = room()
    signal, fence = create_fence()
    launched, fences = [], [fence]
    for source, target in ((given(1), inside(first)), (inside(first), inside(second)), (inside(second), result)):
        launched.append(doubler.execute_fenced(request_of([source], [target]), fences))
        assert launched[-1].fence is not None
        fences = [launched[-1].fence]
    signal.send()
    for execution in launched:
        wait(execution)
    assert result_in(result) == [4 * value for value in twice(1)]


@pytest.mark.contract("MD-62")
def test_a_buffer_with_unknown_dimensions_changes_shape_along_a_chain_of_launches(any_device: RemoteDevice) -> None:
    """A later launch needs more memory, which must not affect earlier ones."""
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    buffer = allocate(any_device, prepared, [0], [0])
    signal, fence = create_fence()
    launched, results, fences = [], [], [fence]
    for images in (1, 4, 2):
        result = room(images)
        for request in (
            request_of([given(images, images)], [inside(buffer, result.dimensions)]),
            request_of([inside(buffer, result.dimensions)], [result]),
        ):
            launched.append(prepared.execute_fenced(request, fences))
            assert launched[-1].fence is not None
            fences = [launched[-1].fence]
        results.append((images, result))
    signal.send()
    for execution in launched:
        wait(execution)
    for images, result in results:
        assert result_in(result) == [2 * value for value in twice(images, images)]


@pytest.mark.contract("MD-62")
def test_a_launch_that_needs_more_memory_does_not_disturb_a_buffer_that_is_being_written(device: RemoteDevice) -> None:
    slow, quick = device.prepare_model(doubling_while_told()), device.prepare_model(adding(FLOAT32, (0,)))
    buffer = device.allocate([slow, quick], [BufferRole(1, 0)], [BufferRole(0, 0), BufferRole(1, 0)])
    count = 1 << 20  # so that the loop gives others time
    one, two = (Place(memory_with(np.ones(size, np.float32)), (size,)) for size in (count, 2 * count))
    told = Place(memory_with(np.ones(1, np.int32)), (1,))
    result, probe = Place(create_ashmem(4 * count), (count,)), Place(create_ashmem(4 * count), (count,))
    writing = slow.execute_fenced(request_of([one, one, told], [inside(buffer, (count,))]), config=PATIENT)
    assert writing.fence is not None
    wait_until(lambda: is_busy(quick, request_of([one, one], [probe])), "the execution runs")
    reading = quick.execute_fenced(request_of([inside(buffer, (count,)), one], [result]), [writing.fence])
    assert reading.fence is not None
    last = quick.execute_fenced(request_of([two, two], [inside(buffer, (2 * count,))]), [reading.fence])
    assert writing.fence.state is FenceState.PENDING
    write(told.pool, np.zeros(1, np.int32))  # which ends the loop
    for launched in (writing, reading, last):
        wait(launched)
    assert set(result_in(result)) == {3.0}
    assert set(contents(buffer, count=2 * count)) == {2.0}


@pytest.mark.contract("MD-62", "MD-55", "FC-12")
def test_a_launched_execution_that_never_runs_leaves_its_output_buffer_uninitialised(
    any_device: RemoteDevice, doubler: RemotePreparedModel
) -> None:
    first, second = (allocate(any_device, doubler, [0], [0]) for _ in range(2))
    fill(first, 1)
    fill(second, 2)
    signal, fence = create_fence()
    writing = doubler.execute_fenced(request_of([given(3)], [inside(first)]), [fence])
    assert writing.fence is not None
    reading = doubler.execute_fenced(request_of([inside(first)], [inside(second)]), [writing.fence])
    assert reading.fence is not None
    assert contents(first).tolist() == FLOAT32.values(1).tolist()
    signal.fail()
    for launched in (writing, reading):
        assert launched.fence is not None
        with pytest.raises(FenceError):
            launched.fence.wait(30)
        assert launched.fence.state is FenceState.ERROR
        assert launched.info().status == FAILURE
    for buffer in (first, second):
        require_nothing_in(buffer)


@pytest.mark.contract("MD-62")
def test_a_launch_that_reads_a_buffer_before_the_launch_that_writes_it_has_ended_fails(
    any_device: RemoteDevice, doubler: RemotePreparedModel
) -> None:
    buffer = allocate(any_device, doubler, [0], [0])
    signal, fence = create_fence()
    writing = doubler.execute_fenced(request_of([given(1)], [inside(buffer)]), [fence])
    reading = doubler.execute_fenced(request_of([inside(buffer)], [room()]))  # waits for nothing
    assert reading.fence is not None
    with pytest.raises(FenceError):
        reading.fence.wait(30)
    assert (reading.info().status, reading.info().message) == (FAILURE, "input 0 is an uninitialised buffer")
    signal.send()
    wait(writing)
    assert contents(buffer).tolist() == twice(1)


@pytest.mark.contract("MD-58")
@pytest.mark.parametrize("reusable", [False, True])
def test_buffers_that_are_released_while_a_launched_execution_uses_them_still_serve_it(
    any_device: RemoteDevice, doubler: RemotePreparedModel, reusable: bool
) -> None:
    before = any_device.usage().buffer_bytes
    source, target = allocate(any_device, doubler, [0]), allocate(any_device, doubler, (), [0])
    fill(source, 1)
    result = room()
    requests = request_of([inside(source)], [result]), request_of([given(2)], [inside(target)])
    signal, fence = create_fence()
    if reusable:
        executions = [doubler.create_reusable_execution(request) for request in requests]
        launched = [execution.execute_fenced([fence]) for execution in executions]
        for one in executions:
            one.release()
    else:
        launched = [doubler.execute_fenced(request, [fence]) for request in requests]
    source.release()
    target.release()
    usage = any_device.usage()
    assert (usage.launched, usage.buffer_bytes) == (2, before + 2 * FLOAT32.size)
    for buffer in (source, target):
        refusal(partial(buffer.copy_to, create_ashmem(FLOAT32.size)), INVALID, "does not exist")
    signal.send()
    for execution in launched:
        assert execution.fence is not None
        execution.fence.wait(30)
        assert execution.info().status == ErrorStatus.NONE
    assert result_in(result) == twice(1)
    wait_until(lambda: any_device.usage().buffer_bytes == before, "their memory is released")


@pytest.mark.contract("MD-54")
@pytest.mark.parametrize("name", FENCED)
def test_a_fenced_execution_needs_the_dimensions_of_its_outputs_even_if_the_buffer_has_them(
    any_device: RemoteDevice, name: str
) -> None:
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    buffer = allocate(any_device, prepared, (), [0], SHAPE)
    request = request_of([given(1)], [inside(buffer)])
    refusal(lambda: FENCED[name](any_device, prepared, request), INVALID, "output 0 has dimensions .., 32, 32, 8.")
    execution = prepared.create_reusable_execution(request)
    for _ in range(2):
        execution.execute()
        refusal(execution.execute_fenced, INVALID, "a fenced execution needs all of them")
