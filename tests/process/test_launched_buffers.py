"""The rows of the contract about device buffers in fenced executions, between the launch and the signal."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.fence import FenceState, create_fence
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


def wait(launched: RemoteFencedExecution) -> None:
    if launched.fence is not None:
        launched.fence.wait(30)
    info = launched.info()
    assert info.status == ErrorStatus.NONE, info.message


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
