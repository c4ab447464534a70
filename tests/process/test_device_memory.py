"""The rows of the contract about executions with device buffers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem
from nnhal.remote import BurstOutcome, RemoteBuffer, RemoteDevice, RemotePreparedModel
from nnhal.types import (
    BufferRole,
    ExecutionResult,
    Model,
    Operand,
    OperandType,
    OperationType,
    OutputShape,
)
from nnhal.types.layout import Dimensions
from tests.support.device_memory import (
    COUNT,
    FENCED,
    FLOAT32,
    KINDS,
    NOT_FENCED,
    OPEN,
    PATIENT,
    SHAPE,
    TWICE,
    WAYS,
    Kind,
    Place,
    Way,
    adding,
    adding_twice,
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
from tests.support.models import Recipe
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until

ROLE = BufferRole(0, 0)


@pytest.fixture(autouse=True)
def nothing_is_left(cpu_ref: Endpoint) -> Iterator[None]:
    with everything_given_back(cpu_ref):
        yield


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as session:
        yield session


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture(params=NOT_FENCED)
def unfenced(request: pytest.FixtureRequest) -> Way:
    """Return each way to execute with which dimensions of outputs may be unknown."""
    return NOT_FENCED[request.param]


@pytest.fixture
def doubler(any_device: RemoteDevice) -> RemotePreparedModel:
    return any_device.prepare_model(doubling(FLOAT32))


@pytest.fixture
def adder(any_device: RemoteDevice) -> RemotePreparedModel:
    return any_device.prepare_model(adding(FLOAT32))


@pytest.mark.contract("EX-14")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_models_run_with_everything_in_device_memory(any_device: RemoteDevice, way: Way, kind: Kind) -> None:
    prepared = any_device.prepare_model(adding_twice(kind))
    inputs = [allocate(any_device, prepared, [index]) for index in range(2)]
    outputs = [allocate(any_device, prepared, (), [index]) for index in range(2)]
    for seed in (1, 2):
        values = [kind.values(seed), kind.values(seed + 10)]
        for buffer, array in zip(inputs, values, strict=True):
            buffer.copy_from(memory_with(array))
        staged = any_device.usage().staged_bytes
        way(any_device, prepared, request_of([inside(b) for b in inputs], [inside(b) for b in outputs]))
        for times, buffer in zip((1, 2), outputs, strict=True):
            np.testing.assert_array_equal(contents(buffer, kind), values[0] + times * values[1])
        assert any_device.usage().staged_bytes == staged


@pytest.mark.contract("MD-49")
def test_a_buffer_cannot_be_two_outputs(any_device: RemoteDevice, way: Way) -> None:
    prepared = any_device.prepare_model(adding_twice())
    buffer = allocate(any_device, prepared, (), [0, 1])
    request = request_of([given(1), given(2)], [inside(buffer), inside(buffer)])
    refusal(lambda: way(any_device, prepared, request), INVALID, "another argument of the request uses too")


@pytest.mark.contract("MD-50")
def test_a_buffer_may_be_two_inputs(any_device: RemoteDevice, adder: RemotePreparedModel, way: Way) -> None:
    buffer, result = allocate(any_device, adder, [0, 1]), room()
    fill(buffer, 1)
    way(any_device, adder, request_of([inside(buffer), inside(buffer)], [result]))
    assert result_in(result) == twice(1)


@pytest.mark.contract("MD-51", "MD-52")
def test_dimensions_in_the_request_that_contradict_the_buffers_are_invalid(any_device: RemoteDevice, way: Way) -> None:
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    source = allocate(any_device, prepared, [0], dimensions=SHAPE)
    target = allocate(any_device, prepared, (), [0], SHAPE)
    fill(source, 1)
    words = "put 0 has dimensions .2, 32, 32, 8., the buffer has .1, 32"
    refusal(lambda: way(any_device, prepared, request_of([inside(source, TWICE)], [room(2)])), INVALID, f"in{words}")
    filled = allocate(any_device, prepared, [0], [0], SHAPE)
    fill(filled, 3)
    for buffer in (target, filled):
        request = request_of([given(1, 2)], [inside(buffer, TWICE)])
        refusal(partial(way, any_device, prepared, request), INVALID, f"out{words}")
    assert contents(filled).tolist() == FLOAT32.values(3).tolist()
    way(any_device, prepared, request_of([inside(source, SHAPE)], [inside(target, SHAPE)]))
    assert contents(target).tolist() == twice(1)


@pytest.mark.contract("MD-53", "MD-54", "MD-60")
def test_a_result_that_contradicts_the_dimensions_of_its_buffer_is_a_failure(
    any_device: RemoteDevice, unfenced: Way
) -> None:
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    buffer = allocate(any_device, prepared, (), [0], SHAPE)
    too_many = request_of([given(1, 2)], [inside(buffer)])
    refusal(lambda: unfenced(any_device, prepared, too_many), FAILURE, "output 0 has dimensions .2, 32, 32, 8.")
    require_nothing_in(buffer)
    require_shapes(unfenced(any_device, prepared, request_of([given(1)], [inside(buffer)])), SHAPE)
    assert contents(buffer).tolist() == twice(1)
    refusal(lambda: unfenced(any_device, prepared, too_many), FAILURE)
    require_nothing_in(buffer)


def require_shapes(result: object, *dimensions: Dimensions) -> None:
    """Check that all outputs of a result fit, and have these dimensions."""
    if isinstance(result, BurstOutcome):
        result = result.result
    assert isinstance(result, ExecutionResult)
    assert result.output_sufficient_size
    assert result.output_shapes == tuple(OutputShape(one) for one in dimensions)


@pytest.mark.contract("MD-18", "MD-56")
def test_a_buffer_with_unknown_dimensions_takes_the_shape_and_memory_of_each_result(
    any_device: RemoteDevice, unfenced: Way
) -> None:
    prepared, before = any_device.prepare_model(doubling(FLOAT32, OPEN)), any_device.usage().buffer_bytes
    buffer, result = allocate(any_device, prepared, [0], [0]), room(3)
    assert any_device.usage().buffer_bytes == before
    for images in (1, 3, 2):
        shape = (images, *SHAPE[1:])
        require_shapes(unfenced(any_device, prepared, request_of([given(images, images)], [inside(buffer)])), shape)
        assert contents(buffer, count=images * COUNT).tolist() == twice(images, images)
        for other in (images - 0.5, images + 1):
            refusal(partial(buffer.copy_to, create_ashmem(int(other * FLOAT32.size))), INVALID, "destination")
        wrong = (images + 1, *SHAPE[1:])
        refusal(
            partial(unfenced, any_device, prepared, request_of([inside(buffer, wrong)], [room(images + 1)])),
            INVALID,
            f"the buffer has .{images}, 32, 32, 8.",
        )
        place = room(images)
        unfenced(any_device, prepared, request_of([inside(buffer, shape)], [place]))
        assert result_in(place) == [2 * value for value in twice(images, images)]
    assert not any(result_in(result))
    assert any_device.usage().buffer_bytes == before + 3 * FLOAT32.size


@pytest.mark.contract("MD-56")
def test_a_reusable_execution_follows_the_shape_of_its_buffers(any_device: RemoteDevice) -> None:
    prepared = any_device.prepare_model(doubling(FLOAT32, OPEN))
    first, second = (allocate(any_device, prepared, [0], [0]) for _ in range(2))
    write = {
        images: prepared.create_reusable_execution(request_of([given(images, images)], [inside(first)]))
        for images in (1, 2)
    }
    move = {
        images: prepared.create_reusable_execution(request_of([inside(first, (images, *SHAPE[1:]))], [inside(second)]))
        for images in (1, 2)
    }
    for images in (1, 2, 1, 1, 2):
        write[images].execute()
        refusal(move[3 - images].execute, INVALID, f"the buffer has .{images}, 32")
        require_shapes(move[images].execute(), (images, *SHAPE[1:]))
        assert contents(second, count=images * COUNT).tolist() == [2 * x for x in twice(images, images)]


def failing() -> Model:
    """Return a model that gathers from 8192 numbers, and fails if an index is too large."""
    recipe = Recipe()
    numbers = FLOAT32.input(recipe, (COUNT,))
    (axis,) = recipe.integers(0)
    indices = recipe.input(OperandType.TENSOR_INT32, (COUNT,))
    inputs = [numbers, axis, indices]
    return recipe.build(recipe.operation(OperationType.GATHER, inputs, FLOAT32.operand((COUNT,)))).model


@pytest.mark.contract("MD-55")
def test_a_failed_execution_leaves_its_output_buffers_uninitialised(device: RemoteDevice, way: Way) -> None:
    prepared = device.prepare_model(failing())
    source, target = allocate(device, prepared, [0], [0]), allocate(device, prepared, [0], [0])
    values, order = FLOAT32.values(1), np.arange(COUNT, dtype=np.int32)[::-1]
    source.copy_from(memory_with(values))
    good, bad = Place(memory_with(order.copy())), Place(memory_with(order + 1))
    for _ in range(2):
        way(device, prepared, request_of([inside(source), good], [inside(target)]))
        assert contents(target).tolist() == values[::-1].tolist()
        refusal(lambda: way(device, prepared, request_of([inside(source), bad], [inside(target)])), FAILURE, "GATHER")
        require_nothing_in(target)
        refusal(
            lambda: way(device, prepared, request_of([inside(target), good], [inside(source)])),
            FAILURE,
            "input 0 is an uninitialised buffer",
        )
        assert contents(source).tolist() == values.tolist()


@pytest.mark.contract("MD-55")
def test_a_request_that_is_refused_changes_no_buffer(any_device: RemoteDevice, way: Way) -> None:
    prepared = any_device.prepare_model(adding_twice(FLOAT32, OPEN))
    first, second = allocate(any_device, prepared, (), [0]), allocate(any_device, prepared, (), [1], SHAPE)
    fill(first, 1)
    fill(second, 2)
    # The first buffer could grow, but the second one cannot be that large.
    request = request_of([given(1, 2), given(2, 2)], [inside(first, TWICE), inside(second, TWICE)])
    refusal(lambda: way(any_device, prepared, request), INVALID, "output 1 has dimensions .2, 32")
    assert contents(first).tolist() == FLOAT32.values(1).tolist()
    assert contents(second).tolist() == FLOAT32.values(2).tolist()


@pytest.mark.contract("MD-55", "MD-58")
def test_buffers_that_are_released_while_an_execution_runs_still_serve_it(device: RemoteDevice) -> None:
    elements = 1 << 20
    prepared, doubler = device.prepare_model(doubling_while_told()), device.prepare_model(doubling(FLOAT32))
    source = device.allocate([prepared], [BufferRole(0, 0), BufferRole(0, 1)], [], (elements,))
    waiting = allocate(device, doubler, [0], [0])
    source.copy_from(memory_with(np.ones(elements, np.float32)))
    told, result = Place(memory_with(np.ones(1, np.int32)), (1,)), Place(create_ashmem(4 * elements), (elements,))

    def is_running() -> bool:
        fill(waiting, 1)
        return is_busy(doubler, request_of([given(1)], [inside(waiting)]))

    with ThreadPoolExecutor(1) as pool:
        request = request_of([inside(source, (elements,))] * 2 + [told], [result])
        run = pool.submit(prepared.execute, request, PATIENT)
        wait_until(is_running, "the execution runs")
        source.release()
        assert not run.done()
        require_nothing_in(waiting)  # the execution that should have written it has failed
        write(told.pool, np.zeros(1, np.int32))  # which ends the loop
        assert run.result().output_sufficient_size
    assert set(result_in(result)) == {2.0}


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def small_device(
    request: pytest.FixtureRequest, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RemoteDevice]:
    """Run each of the devices, with memory for five tensors, three of them for one client."""
    monkeypatch.setenv("NNHAL_DEVICE_BUFFER_BYTES", str(5 * FLOAT32.size))
    with device_process(request.param, short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as session:
        yield session


@pytest.mark.contract("MD-60")
def test_a_result_that_exceeds_the_devices_memory_is_a_failure(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(doubling(FLOAT32, OPEN))
    buffer = allocate(small_device, prepared, (), [0])
    for name, way in WAYS.items():
        output = inside(buffer, TWICE if name in FENCED else ())
        fitting = request_of([given(1)], [inside(buffer, SHAPE if name in FENCED else ())])
        large = request_of([given(1, 4)], [inside(buffer, (4, *SHAPE[1:]) if name in FENCED else ())])
        way(small_device, prepared, fitting)
        assert contents(buffer).tolist() == twice(1)
        refusal(partial(way, small_device, prepared, large), FAILURE, "do not fit the device's memory")
        if name in NOT_FENCED:
            require_nothing_in(buffer)
        way(small_device, prepared, request_of([given(2, 2)], [output]))
        assert contents(buffer, count=2 * COUNT).tolist() == twice(2, 2)
        buffer.release()
        buffer = allocate(small_device, prepared, (), [0])


@pytest.mark.contract("MD-60")
def test_a_too_small_output_in_shared_memory_is_reported_beside_one_in_device_memory(
    any_device: RemoteDevice, unfenced: Way
) -> None:
    prepared = any_device.prepare_model(adding_twice(FLOAT32, OPEN))
    inner, short = allocate(any_device, prepared, (), [0]), create_ashmem(FLOAT32.size)
    request = request_of([given(1, 2), given(2, 2)], [inside(inner), Place(short)])
    result = unfenced(any_device, prepared, request)
    if isinstance(result, BurstOutcome):
        result = result.result
    assert isinstance(result, ExecutionResult)
    assert not result.output_sufficient_size
    assert [shape.is_sufficient for shape in result.output_shapes] == [True, False]
    require_nothing_in(inner, 2 * FLOAT32.size)


def detecting() -> Model:
    """Return a model that selects boxes with a score above 0.5; their number depends on the values."""
    recipe = Recipe()
    whole = OperandType.TENSOR_INT32
    inputs = [FLOAT32.input(recipe, (3, 2)), FLOAT32.input(recipe, (3, 8)), recipe.input(whole, (3,))]
    scalars = [(OperandType.FLOAT32, 0.5), (OperandType.INT32, -1), (OperandType.INT32, 0)]
    scalars += [(OperandType.FLOAT32, value) for value in (0.5, 0.5, 0.5)]
    inputs += [recipe.constant(code, value) for code, value in scalars]
    outputs = [FLOAT32.operand((0,)), FLOAT32.operand((0, 4)), Operand(whole, (0,)), Operand(whole, (0,))]
    first = recipe.operation(OperationType.BOX_WITH_NMS_LIMIT, inputs, *outputs)
    return recipe.build(*range(first, first + 4)).model


@pytest.mark.contract("MD-56")
def test_a_result_without_elements_sets_the_shape_of_its_buffer(device: RemoteDevice, unfenced: Way) -> None:
    detector, adder = device.prepare_model(detecting()), device.prepare_model(adding(FLOAT32, (0,)))
    scores = device.allocate([detector, adder], [BufferRole(1, 0)], [ROLE])
    one = device.allocate([detector], (), [ROLE], (1,))
    boxes = np.array([[0, 0, 1, 1] * 2, [8, 8, 9, 9] * 2, [16, 16, 17, 17] * 2], np.float32)
    others: list[Place[Any]] = [Place(create_ashmem(size)) for size in (48, 12, 12)]

    def detect(found: int, buffer: RemoteBuffer) -> object:
        likely = np.array([[0, 0.75 if number < found else 0.25] for number in range(3)], np.float32)
        inputs: list[Place[Any]] = [Place(memory_with(array)) for array in (likely, boxes, np.zeros(3, np.int32))]
        return unfenced(device, detector, request_of(inputs, [inside(buffer), *others]))

    def add(count: int) -> object:
        terms: list[Place[Any]] = [inside(scores, (count,)), Place(memory_with(np.ones(count, np.float32)), (count,))]
        return unfenced(device, adder, request_of(terms, [Place(create_ashmem(4 * count))]))

    for found in (2, 0, 3):
        require_shapes(detect(found, scores), (found,), (found, 4), (found,), (found,))
        for count in (1, 2, 3):
            if count == found:
                require_shapes(add(count), (count,))
            else:
                refusal(partial(add, count), INVALID, f"the buffer has .{found}.")
    require_shapes(detect(1, one), (1,), (1, 4), (1,), (1,))
    for found in (0, 2):
        refusal(partial(detect, found, one), FAILURE, "its buffer .1.|model and request say .1.")
        require_nothing_in(one, 4)
