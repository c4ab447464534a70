"""Memory domains: models over tensors of one shape, their buffers, and every way to execute with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import FenceError
from nnhal.memory import create_ashmem, open_pool, validate_pool
from nnhal.remote import RemoteBuffer, RemoteDevice, RemotePreparedModel
from nnhal.types import (
    Ashmem,
    BufferRole,
    DataLocation,
    ExecutionConfig,
    FencedExecutionInfo,
    Memory,
    Model,
    Operand,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
    RequestMemoryPool,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from tests.support.models import Recipe
from tests.support.refusals import FAILURE, refusal
from tests.support.resources import counts_of
from tests.support.subgraphs import B8, INT32, Graph, Program
from tests.support.waiting import wait_until

SHAPE = (1, 32, 32, 8)
OPEN = (0, 32, 32, 8)
TWICE = (2, 32, 32, 8)
COUNT = 32 * 32 * 8
"""The number of elements of SHAPE."""
PATIENT = ExecutionConfig(loop_timeout_duration_ns=15_000_000_000)
"""The longest time that a loop is given."""
_SAME = 1
_CHANNELS = SHAPE[-1]


@dataclass(frozen=True)
class Kind:
    """An element type with its quantisation."""

    code: OperandType
    scale: float = 0.0
    zero_point: int = 0

    @property
    def element(self) -> np.dtype[Any]:
        return ELEMENT_TYPES[self.code]

    @property
    def size(self) -> int:
        """The bytes of a tensor of SHAPE."""
        return COUNT * self.element.itemsize

    def operand(self, dimensions: Dimensions) -> Operand:
        return Operand(self.code, dimensions, self.scale, self.zero_point)

    def input(self, recipe: Recipe, dimensions: Dimensions) -> int:
        return recipe.input(self.code, dimensions, self.scale, self.zero_point)

    def values(self, seed: int, count: int = COUNT) -> Array:
        """Return stored integers from 0 to 30, for which the models' results are exact in every type."""
        return np.random.default_rng(seed).integers(0, 31, count).astype(self.element)


KINDS = {
    "float32": Kind(OperandType.TENSOR_FLOAT32),
    "float16": Kind(OperandType.TENSOR_FLOAT16),
    "unsigned": Kind(OperandType.TENSOR_QUANT8_ASYMM, 0.5),
    "signed": Kind(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5),
}
FLOAT32 = KINDS["float32"]


@cache
def doubling(kind: Kind, dimensions: Dimensions = SHAPE) -> Model:
    """Return a 3 x 3 CONV_2D that doubles its input: its filters are zero except in the middle."""
    recipe = Recipe()
    quantised = kind.scale > 0
    middle = np.zeros((_CHANNELS, 3, 3, _CHANNELS))
    middle[np.arange(_CHANNELS), 1, 1, np.arange(_CHANNELS)] = 2 / kind.scale if quantised else 2
    bias = OperandType.TENSOR_INT32 if quantised else kind.code
    inputs = [
        kind.input(recipe, dimensions),
        recipe.constant(kind.code, middle, kind.scale),
        recipe.constant(bias, np.zeros(_CHANNELS), kind.scale**2),
        *recipe.integers(_SAME, 1, 1, 0),
    ]
    return recipe.build(recipe.operation(OperationType.CONV_2D, inputs, kind.operand(dimensions))).model


@cache
def adding(kind: Kind, dimensions: Dimensions = SHAPE) -> Model:
    recipe = Recipe()
    terms = [kind.input(recipe, dimensions) for _ in range(2)]
    inputs = [*terms, *recipe.integers(0)]
    return recipe.build(recipe.operation(OperationType.ADD, inputs, kind.operand(dimensions))).model


@cache
def doubling_while_told() -> Model:
    """Return ``while told == 1: total = one + one``, with the inputs total, one and told, and an open length."""
    vector = Operand(OperandType.TENSOR_FLOAT32, (0,))
    program = Program()
    main, condition, body = (program.graph() for _ in range(3))
    *_, told = _vector(condition), _vector(condition), condition.input()
    condition.returns(condition.operation(OperationType.EQUAL, [told, condition.constant([1])], Operand(B8, (1,))))
    _, one, _ = _vector(body), _vector(body), body.input()
    body.returns(body.operation(OperationType.ADD, [one, one, body.constant(0, INT32)], vector))
    inputs = [main.reference(condition), main.reference(body), _vector(main), _vector(main), main.input()]
    main.returns(main.operation(OperationType.WHILE, inputs, vector))
    return program.resolved().model


def _vector(graph: Graph) -> int:
    return graph.input((0,), OperandType.TENSOR_FLOAT32)


@cache
def adding_twice(kind: Kind = FLOAT32, dimensions: Dimensions = SHAPE) -> Model:
    """Return a model with two outputs: the sum of the inputs, and that sum plus the second input."""
    recipe = Recipe()
    first, second = (kind.input(recipe, dimensions) for _ in range(2))
    (none,) = recipe.integers(0)
    once = recipe.operation(OperationType.ADD, [first, second, none], kind.operand(dimensions))
    twice = recipe.operation(OperationType.ADD, [once, second, none], kind.operand(dimensions))
    return recipe.build(once, twice).model


P = TypeVar("P", bound=RequestMemoryPool)


@dataclass(frozen=True)
class Place(Generic[P]):
    """An argument that takes a whole pool."""

    pool: P
    dimensions: Dimensions = ()


def inside(buffer: RemoteBuffer | int, dimensions: Dimensions = ()) -> Place[int]:
    return Place(buffer if isinstance(buffer, int) else buffer.token, dimensions)


def request_of(inputs: Sequence[Place[Any]], outputs: Sequence[Place[Any]]) -> Request:
    places = [*inputs, *outputs]
    arguments = [
        RequestArgument(DataLocation(index, 0, _length(place.pool)), place.dimensions)
        for index, place in enumerate(places)
    ]
    return Request(
        tuple(arguments[: len(inputs)]), tuple(arguments[len(inputs) :]), tuple(place.pool for place in places)
    )


def _length(pool: RequestMemoryPool) -> int:
    return 0 if isinstance(pool, int) else validate_pool(pool, "a pool")


def memory_with(values: Array) -> Ashmem:
    memory = create_ashmem(values.nbytes)
    write(memory, values)
    return memory


def write(memory: Memory, values: Array) -> None:
    open_pool(memory, writable=True).write(0, values.reshape(-1).view(np.uint8))


def read(memory: Memory, kind: Kind = FLOAT32) -> Array:
    pool = open_pool(memory, writable=False)
    return pool.read(0, pool.size).view(kind.element)


def allocate(
    device: RemoteDevice,
    prepared: RemotePreparedModel,
    inputs: Sequence[int] = (),
    outputs: Sequence[int] = (),
    dimensions: Dimensions = (),
) -> RemoteBuffer:
    return device.allocate(
        [prepared], [BufferRole(0, index) for index in inputs], [BufferRole(0, index) for index in outputs], dimensions
    )


def contents(buffer: RemoteBuffer, kind: Kind = FLOAT32, count: int = COUNT) -> Array:
    """Return the values of a buffer, which must have ``count`` elements."""
    memory = create_ashmem(count * kind.element.itemsize)
    buffer.copy_to(memory)
    return read(memory, kind)


def given(seed: int, images: int = 1) -> Place[Ashmem]:
    """Return shared memory with random float images, reproducible by their seed."""
    return Place(memory_with(FLOAT32.values(seed, images * COUNT)), (images, *SHAPE[1:]))


def room(images: int = 1) -> Place[Ashmem]:
    """Return shared memory for a result of ``images`` float images."""
    return Place(create_ashmem(images * FLOAT32.size), (images, *SHAPE[1:]))


def result_in(place: Place[Ashmem]) -> list[float]:
    return [float(value) for value in read(place.pool)]


def twice(seed: int, images: int = 1) -> list[float]:
    """Return what ``doubling`` computes from ``given``."""
    return [2 * float(value) for value in FLOAT32.values(seed, images * COUNT)]


def fill(buffer: RemoteBuffer, seed: int, images: int = 1) -> None:
    """Copy the values of ``given`` into a buffer."""
    place = given(seed, images)
    buffer.copy_from(place.pool, place.dimensions)


def require_nothing_in(buffer: RemoteBuffer, size: int = FLOAT32.size) -> None:
    """Check that a buffer of ``size`` bytes is uninitialised."""
    refusal(lambda: buffer.copy_to(create_ashmem(size)), FAILURE, "the buffer is uninitialised")


def is_busy(prepared: RemotePreparedModel, request: Request) -> bool:
    """Return whether an execution with a short deadline finds no free worker."""
    soon = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 50_000_000
    try:
        prepared.execute(request, deadline_ns=soon)
    except HalError as error:
        return "no worker was free" in error.message
    return False


def await_given_back(device: RemoteDevice, before: tuple[int, ...]) -> None:
    """Wait until a device process holds no more for its clients than before. It may hold less: what clients of an
    earlier test held may have been on its way back.
    """

    now = before

    def is_given_back() -> bool:
        nonlocal now
        now = counts_of(device.usage())
        return all(is_held <= was_held for is_held, was_held in zip(now, before, strict=True))

    try:
        wait_until(is_given_back, "everything is released")
    except AssertionError as error:
        raise AssertionError(f"{error}: {now}, before {before}") from None


@contextmanager
def everything_given_back(endpoint: Endpoint) -> Iterator[None]:
    """Check that the device process holds the same for its clients after the context as before."""
    with RemoteDevice(endpoint, "observer") as observer:
        before = counts_of(observer.usage())
        yield
        await_given_back(observer, before)


Way = Callable[[RemoteDevice, RemotePreparedModel, Request], object]


def synchronously(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    return prepared.execute(request)


def in_a_burst(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    """Call a burst's executeSynchronously with a token for every pool, including device buffers."""
    burst = prepared.configure_execution_burst()
    try:
        return burst.execute(request, range(len(request.pools)))
    finally:
        burst.close()


def fenced(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    launched = prepared.execute_fenced(request)
    try:
        if launched.fence is not None:
            launched.fence.wait(30)
    except FenceError as error:
        raise _failure(launched.info()) from error
    finally:
        launched.release()
    return None


def reusably(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    execution = prepared.create_reusable_execution(request)
    try:
        return execution.execute()
    finally:
        execution.release()


def reusably_in_a_burst(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    """Run a reusable execution on a burst's channel."""
    execution, burst = prepared.create_reusable_execution(request), prepared.configure_execution_burst()
    try:
        return burst.run(execution)
    finally:
        burst.close()
        execution.release()


def reusably_launched(device: RemoteDevice, prepared: RemotePreparedModel, request: Request) -> object:
    """Launch a reusable execution on a launch channel, and wait for its fence."""
    execution, launcher = prepared.create_reusable_execution(request), device.open_launcher()
    try:
        fence = launcher.launch(execution)
        if fence is not None:
            fence.wait(30)
    except FenceError as error:
        raise _failure(launcher.info(execution)) from error
    finally:
        launcher.close()
        execution.release()
    return None


def _failure(info: FencedExecutionInfo) -> HalError:
    return HalError(info.status, info.message)


FENCED: dict[str, Way] = {"fenced": fenced, "reusable, launched": reusably_launched}
NOT_FENCED: dict[str, Way] = {
    "sync": synchronously,
    "burst": in_a_burst,
    "reusable": reusably,
    "reusable in a burst": reusably_in_a_burst,
}
WAYS = NOT_FENCED | FENCED
