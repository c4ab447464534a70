"""The rows of the contract about requests, for every way to send a request to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import (
    NO_DEADLINE,
    UNAVAILABLE_TIMING,
    DataLocation,
    ExecutionConfig,
    Model,
    Operand,
    OperandType,
    OperationType,
    OutputShape,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions
from tests.support.additions import addition_in_ashmem, addition_of_any_size, addition_of_unknown_size
from tests.support.entry_points import (
    ALL_ENTRY_POINTS,
    ENTRY_POINTS,
    FENCED_ENTRY_POINTS,
    PLAIN,
    EntryPoint,
    Target,
    bind,
)
from tests.support.failures import endless_loop, lookup_beyond_the_table, lookup_model, request_for_one_number
from tests.support.models import Recipe
from tests.support.refusals import INVALID, MISSED, refusal
from tests.support.wire import WireDevice

F32 = OperandType.TENSOR_FLOAT32
ROWS, COLUMNS = 2, 8
SHAPE = (ROWS, COLUMNS)
SIZE = 4 * ROWS * COLUMNS
POOL = 5 * SIZE
MEASURED = ExecutionConfig(measure_timing=True)
CONFIGS = [pytest.param(PLAIN, id="plain"), pytest.param(MEASURED, id="measured")]
Change = Callable[[Request], Request]


def two_sums() -> Model:
    """Return the model ``a, b, c -> a + b, b + c``, with a scalar input that nothing reads."""
    recipe = Recipe()
    a, b, c = (recipe.input(F32, SHAPE) for _ in range(3))
    recipe.input(OperandType.INT32)
    (none,) = recipe.integers(0)
    sums = [recipe.operation(OperationType.ADD, [*pair, none], Operand(F32, SHAPE)) for pair in ((a, b), (b, c))]
    return recipe.build(*sums).model


def request_for_two_sums() -> Request:
    """Return a request with the tensors in one pool, and the scalar in another."""

    def tensor(position: int) -> RequestArgument:
        return RequestArgument(DataLocation(0, position * SIZE, SIZE))

    scalar = RequestArgument(DataLocation(1, 4, 4))
    return Request(
        (tensor(0), tensor(1), tensor(2), scalar),
        (tensor(3), tensor(4)),
        (create_ashmem(POOL), create_ashmem(8)),
    )


@pytest.fixture(params=ALL_ENTRY_POINTS)
def entry(request: pytest.FixtureRequest) -> EntryPoint:
    return ALL_ENTRY_POINTS[request.param]


@pytest.fixture(params=ENTRY_POINTS)
def unfenced(request: pytest.FixtureRequest) -> EntryPoint:
    """Return each way to execute without fences, with which dimensions of outputs may be unknown."""
    return ENTRY_POINTS[request.param]


@pytest.fixture(params=FENCED_ENTRY_POINTS)
def fenced(request: pytest.FixtureRequest) -> EntryPoint:
    return FENCED_ENTRY_POINTS[request.param]


@pytest.fixture(scope="module")
def session(cpu_ref: Endpoint) -> Iterator[WireDevice]:
    """Open a session that the module's tests share."""
    with WireDevice(cpu_ref) as wire:
        yield wire


@pytest.fixture(scope="module")
def target(session: WireDevice) -> Target:
    return Target(session, session.prepare(two_sums()))


@pytest.fixture(scope="module")
def open_target(session: WireDevice) -> Target:
    """Prepare an addition with an output of unknown size."""
    return Target(session, session.prepare(addition_of_unknown_size()))


def output_at(request: Request, position: int) -> Array:
    pool = request.pools[0]
    assert not isinstance(pool, int)
    return open_pool(pool, writable=False).read(position * SIZE, SIZE).view(np.float32)


@pytest.mark.contract("EX-02", "EX-03", "RQ-09")
@pytest.mark.parametrize("config", CONFIGS)
def test_a_valid_request_is_executed(target: Target, entry: EntryPoint, config: ExecutionConfig) -> None:
    request = request_for_two_sums()
    memory = request.pools[0]
    assert not isinstance(memory, int)
    pool = open_pool(memory, writable=True)
    for position, value in enumerate((1, 10, 100)):
        pool.write(position * SIZE, np.full(ROWS * COLUMNS, value, np.float32).view(np.uint8))
    result = entry(target, request, config, NO_DEADLINE)
    np.testing.assert_array_equal(output_at(request, 3), np.float32(11))
    np.testing.assert_array_equal(output_at(request, 4), np.float32(110))
    assert result.output_sufficient_size
    assert result.output_shapes in ((), (OutputShape(SHAPE), OutputShape(SHAPE)))
    if config is PLAIN:
        assert result.timing == UNAVAILABLE_TIMING
    else:
        assert 0 <= result.timing.time_on_device_ns <= result.timing.time_in_driver_ns


def without(items: tuple[RequestArgument, ...], index: int) -> tuple[RequestArgument, ...]:
    return items[:index] + items[index + 1 :]


def located(argument: RequestArgument, **fields: int) -> RequestArgument:
    return replace(argument, location=replace(argument.location, **fields))


def scalar(change: Callable[[RequestArgument], RequestArgument]) -> Change:
    return lambda request: replace(request, inputs=(*request.inputs[:-1], change(request.inputs[-1])))


@pytest.mark.contract("RQ-07")
def test_inputs_must_be_fully_specified_by_model_and_request(session: WireDevice, entry: EntryPoint) -> None:
    target = Target(session, session.prepare(addition_of_any_size()))
    addition = addition_in_ashmem()

    def sized(*dimensions: int) -> Request:
        inputs = tuple(replace(a, dimensions=dimensions) for a in addition.request.inputs)
        outputs = tuple(replace(a, dimensions=(16,)) for a in addition.request.outputs)
        return replace(addition.request, inputs=inputs, outputs=outputs)

    for dimensions in ((), (0,)):
        request = sized(*dimensions)
        refusal(lambda r=request: entry(target, r, PLAIN, NO_DEADLINE), INVALID, "expected all known")  # type: ignore[misc]
    addition.check(lambda: entry(target, sized(16), PLAIN, NO_DEADLINE), 1, 2)


@pytest.mark.contract("RQ-08", "EX-04")
@pytest.mark.parametrize("length", [64, 100])
def test_dimensions_of_outputs_may_be_unknown_before_the_execution(
    open_target: Target, unfenced: EntryPoint, length: int
) -> None:
    addition = addition_in_ashmem(elements=64)
    request = replace(
        addition.request,
        inputs=tuple(located(a, length=64) for a in addition.request.inputs),
        outputs=tuple(located(a, length=length) for a in addition.request.outputs),
    )
    addition.fill(1, 2)
    result = unfenced(open_target, request, PLAIN, NO_DEADLINE)
    assert result.output_sufficient_size
    assert result.output_shapes == (OutputShape((16,)),)
    np.testing.assert_array_equal(addition.total()[:16], np.float32(3))


@pytest.mark.contract("EX-06")
@pytest.mark.parametrize("config", CONFIGS)
def test_an_output_of_unknown_size_that_does_not_fit_is_reported_with_its_size(
    open_target: Target, unfenced: EntryPoint, config: ExecutionConfig
) -> None:
    addition = addition_in_ashmem()
    outputs = tuple(located(a, length=63, padding=1) for a in addition.request.outputs)
    result = unfenced(open_target, replace(addition.request, outputs=outputs), config, NO_DEADLINE)
    assert not result.output_sufficient_size
    assert result.output_shapes == (OutputShape((16,), is_sufficient=False),)
    assert result.timing == UNAVAILABLE_TIMING


@pytest.mark.contract("RQ-08", "EX-05", "EX-07", "FC-07", "FC-08")
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dimensions", [(), (0,)])
@pytest.mark.parametrize("missing", [0, 1])
def test_outputs_of_unknown_size_cannot_be_fenced_even_if_they_have_room(
    open_target: Target, fenced: EntryPoint, missing: int, dimensions: Dimensions, config: ExecutionConfig
) -> None:
    addition = addition_in_ashmem()
    outputs = tuple(
        replace(located(a, length=SIZE - missing, padding=missing), dimensions=dimensions)
        for a in addition.request.outputs
    )
    addition.fill(1, 2)
    refusal(
        lambda: fenced(open_target, replace(addition.request, outputs=outputs), config, NO_DEADLINE),
        INVALID,
        r"output 0 has dimensions \[\?\]",
    )
    assert np.isnan(addition.total()).all()
    known = tuple(replace(a, dimensions=(16,)) for a in addition.request.outputs)
    addition.check(lambda: fenced(open_target, replace(addition.request, outputs=known), config, NO_DEADLINE), 1, 2)


@pytest.mark.contract("VR-06")
def test_a_failure_during_the_execution_is_an_error(session: WireDevice, entry: EntryPoint) -> None:
    target = Target(session, session.prepare(lookup_model()))
    with pytest.raises(HalError):
        entry(target, lookup_beyond_the_table(), PLAIN, NO_DEADLINE)


@pytest.mark.contract("EX-15")
def test_a_loop_without_end_ends_with_its_timeout(session: WireDevice, entry: EntryPoint) -> None:
    target = Target(session, session.prepare(endless_loop()))
    with pytest.raises(HalError) as caught:
        entry(target, request_for_one_number(), ExecutionConfig(loop_timeout_duration_ns=1_000_000), NO_DEADLINE)
    assert caught.value.status in MISSED


@pytest.mark.contract("EX-08")
@pytest.mark.parametrize("length", [1, 7, 64])
def test_an_empty_output_fits_into_any_memory(session: WireDevice, unfenced: EntryPoint, length: int) -> None:
    recipe = Recipe()
    scores = recipe.input(F32, (2, 2))
    boxes = recipe.constant(F32, np.zeros((2, 8)))
    images = recipe.constant(OperandType.TENSOR_INT32, [0, 0])
    limits = [recipe.constant(OperandType.FLOAT32, 0.5) for _ in range(4)]
    parameters = [limits[0], *recipe.integers(-1, 0), *limits[1:]]
    outputs = [
        Operand(F32, (0,)),
        Operand(F32, (0, 4)),
        Operand(OperandType.TENSOR_INT32, (0,)),
        Operand(OperandType.TENSOR_INT32, (0,)),
    ]
    first = recipe.operation(OperationType.BOX_WITH_NMS_LIMIT, [scores, boxes, images, *parameters], *outputs)
    target = Target(session, session.prepare(recipe.build(*range(first, first + 4)).model))
    request = Request(
        (RequestArgument(DataLocation(0, 0, 16)),),
        tuple(RequestArgument(DataLocation(0, 64 * (1 + index), length)) for index in range(4)),
        (create_ashmem(320),),
    )
    result = unfenced(target, request, PLAIN, NO_DEADLINE)
    assert result.output_sufficient_size
    assert [shape.dimensions for shape in result.output_shapes] == [(0,), (0, 4), (0,), (0,)]
    assert all(shape.is_sufficient for shape in result.output_shapes)


@pytest.mark.contract("EX-09")
def test_an_optional_input_without_a_value_has_its_default(session: WireDevice, entry: EntryPoint) -> None:
    recipe = Recipe()
    seeds = recipe.constant(F32, np.linspace(-3, 3, 64).reshape(2, 32))
    items, weights = recipe.input(OperandType.TENSOR_INT32, (3,)), recipe.input(F32, (3,))
    inputs = [seeds, items, weights, *recipe.integers(2)]
    bits = recipe.operation(OperationType.LSH_PROJECTION, inputs, Operand(OperandType.TENSOR_INT32, (64,)))
    target = Target(session, session.prepare(recipe.build(bits).model))
    memory = create_ashmem(320)
    pool = open_pool(memory, writable=True)
    pool.write(0, np.array([7, 8, 9], np.int32).view(np.uint8))

    def projected(argument: RequestArgument) -> list[int]:
        inputs = (RequestArgument(DataLocation(0, 0, 12)), argument)
        request = Request(inputs, (RequestArgument(DataLocation(0, 64, 256)),), (memory,))
        assert entry(target, request, PLAIN, NO_DEADLINE).output_sufficient_size
        return list(pool.read(64, 256).view(np.int32))

    def weighted(*values: float) -> list[int]:
        pool.write(16, np.array(values, np.float32).view(np.uint8))
        return projected(RequestArgument(DataLocation(0, 16, 12)))

    assert weighted(1, -1, 0) != weighted(1, 1, 1) == projected(RequestArgument(has_no_value=True))


@pytest.mark.contract("RE-03")
def test_a_reusable_execution_of_an_invalid_request_is_refused_when_it_is_created(target: Target) -> None:
    request = replace(request_for_two_sums(), outputs=())
    refusal(lambda: bind(target, request), INVALID, "0 outputs, the model has 2")
