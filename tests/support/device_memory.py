"""Memory domains: models over tensors of one shape, and their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import create_ashmem, open_pool, validate_pool
from nnhal.remote import RemoteBuffer, RemoteDevice, RemotePreparedModel
from nnhal.types import (
    Ashmem,
    BufferRole,
    DataLocation,
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

SHAPE = (1, 32, 32, 8)
OPEN = (0, 32, 32, 8)
TWICE = (2, 32, 32, 8)
COUNT = 32 * 32 * 8
"""The number of elements of SHAPE."""
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
