"""The simplest thing that a device can be asked: the sum of two tensors, in memory of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import create_ashmem, create_blob, map_file, open_pool
from nnhal.memory.ashmem import create_sealed
from nnhal.memory.mmap_fd import create_file
from nnhal.types import (
    DataLocation,
    Memory,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Request,
    RequestArgument,
    Subgraph,
)
from tests.support.models import Recipe

ELEMENTS = 16
TENSOR_BYTES = 4 * ELEMENTS
POOL_BYTES = 3 * TENSOR_BYTES

POOL_KINDS: dict[str, Callable[[int, Path], Memory]] = {
    "ashmem": lambda size, _: create_ashmem(size),
    "sealed file": lambda size, _: map_file(create_sealed(size, "test"), size),
    "unsealed file": lambda size, directory: create_file(directory / "pool", size),
    "blob": lambda size, _: create_blob(size),
}
"""A pool of so many bytes, by the name of its kind; the directory is for those that need a file."""


@cache
def addition_model(elements: int = ELEMENTS, operations: int = 1) -> Model:
    """Adds two vectors of floats, and then the second one again for each further operation."""
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    total, other = recipe.input(code, (elements,)), recipe.input(code, (elements,))
    (none,) = recipe.integers(0)
    for _ in range(operations):
        total = recipe.operation(OperationType.ADD, [total, other, none], Operand(code, (elements,)))
    return recipe.build(total).model


def addition_of_open_size(elements: int = ELEMENTS) -> Model:
    """The model, of which the output's dimensions are known to no one before it runs."""
    model = addition_model(elements)
    operands = list(model.main.operands)
    operands[-1] = replace(operands[-1], dimensions=(0,))
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def addition_of_any_size() -> Model:
    """The model, of which no dimensions are known."""
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    terms = [recipe.input(code, (0,)) for _ in range(2)]
    return recipe.build(recipe.operation(OperationType.ADD, [*terms, *recipe.integers(0)], Operand(code, (0,)))).model


def additions_in_a_circle() -> Model:
    """Two additions that each read the other's sum, and a third that reads one of them: not a valid model."""
    code = OperandType.TENSOR_FLOAT32
    given, written = (
        Operand(code, (ELEMENTS,), lifetime=lifetime)
        for lifetime in (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.TEMPORARY_VARIABLE)
    )
    operands = (
        given,
        given,
        Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        written,
        written,
        replace(written, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    )
    operations = tuple(
        Operation(OperationType.ADD, (*terms, 2), (total,)) for terms, total in (((0, 4), 3), ((1, 3), 4), ((4, 0), 5))
    )
    return Model(Subgraph(operands, operations, (0, 1, 2), (5,)))


def addition_of_constant(pool: Memory, offset: int = 0) -> Model:
    """Adds a constant that lies in a pool."""
    model = addition_model()
    operands = list(model.main.operands)
    location = DataLocation(0, offset, TENSOR_BYTES)
    operands[1] = replace(operands[1], lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
    return replace(model, main=replace(model.main, operands=tuple(operands), input_indexes=(0,)), pools=(pool,))


def argument(offset: int, length: int = TENSOR_BYTES, pool: int = 0) -> RequestArgument:
    """A range of a pool."""
    return RequestArgument(DataLocation(pool, offset, length))


class Addition:
    """Two terms and their sum, one after the other in one pool."""

    def __init__(self, memory: Memory, elements: int = ELEMENTS) -> None:
        size = 4 * elements
        self.request = Request((argument(0, size), argument(size, size)), (argument(2 * size, size),), (memory,))
        self._pool = open_pool(memory, writable=True)
        self._size = size

    @property
    def of_one_term(self) -> Request:
        """The request with its first term only."""
        return replace(self.request, inputs=self.request.inputs[:1])

    def fill(self, first: float, second: float) -> None:
        """Write the terms, each the same number everywhere, and forget the sum."""
        for index, value in enumerate((first, second, np.nan)):
            self._pool.write(index * self._size, np.full(self._size // 4, value, np.float32).view(np.uint8))

    def total(self) -> Array:
        """Read the sum."""
        return self._pool.read(2 * self._size, self._size).view(np.float32)

    def check(self, run: Callable[[], object], first: float, second: float, times: int = 1) -> None:
        """Run with new terms, ``times`` being how often the model adds the second."""
        self.fill(first, second)
        run()
        np.testing.assert_array_equal(self.total(), np.float32(first + times * second))


def addition_in_ashmem(elements: int = ELEMENTS) -> Addition:
    """In the plainest kind of memory."""
    return Addition(create_ashmem(3 * 4 * elements), elements)
