"""The simplest model, the sum of two tensors, and requests of it in any kind of memory."""

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
"""Make a pool from its size in bytes and a directory for its file, by the name of its kind."""


@cache
def addition_model(elements: int = ELEMENTS, operations: int = 1) -> Model:
    """Return a model that adds two vectors of floats, and adds the second again with each further operation."""
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    total, other = recipe.input(code, (elements,)), recipe.input(code, (elements,))
    (none,) = recipe.integers(0)
    for _ in range(operations):
        total = recipe.operation(OperationType.ADD, [total, other, none], Operand(code, (elements,)))
    return recipe.build(total).model


def addition_of_unknown_size(elements: int = ELEMENTS) -> Model:
    """Return the addition with an output whose dimensions are unknown before it runs."""
    model = addition_model(elements)
    operands = list(model.main.operands)
    operands[-1] = replace(operands[-1], dimensions=(0,))
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def addition_of_any_size() -> Model:
    """Return the addition with all dimensions unknown."""
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    terms = [recipe.input(code, (0,)) for _ in range(2)]
    return recipe.build(recipe.operation(OperationType.ADD, [*terms, *recipe.integers(0)], Operand(code, (0,)))).model


def additions_in_a_cycle() -> Model:
    """Return an invalid model: two additions that each read the other's sum, and a third that reads one of them."""
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
    """Return the addition of a constant that lies in a pool."""
    model = addition_model()
    operands = list(model.main.operands)
    location = DataLocation(0, offset, TENSOR_BYTES)
    operands[1] = replace(operands[1], lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
    return replace(model, main=replace(model.main, operands=tuple(operands), input_indexes=(0,)), pools=(pool,))


def argument(offset: int, length: int = TENSOR_BYTES, pool: int = 0) -> RequestArgument:
    return RequestArgument(DataLocation(pool, offset, length))


class Addition:
    """A request of an addition: two terms and their sum, one after the other in one pool."""

    def __init__(self, memory: Memory, elements: int = ELEMENTS) -> None:
        size = 4 * elements
        self.request = Request((argument(0, size), argument(size, size)), (argument(2 * size, size),), (memory,))
        self._pool = open_pool(memory, writable=True)
        self._size = size

    @property
    def of_one_term(self) -> Request:
        """The request without its second term."""
        return replace(self.request, inputs=self.request.inputs[:1])

    def fill(self, first: float, second: float) -> None:
        """Fill each term with one number, and the sum with NaN."""
        for index, value in enumerate((first, second, np.nan)):
            self._pool.write(index * self._size, np.full(self._size // 4, value, np.float32).view(np.uint8))

    def total(self) -> Array:
        return self._pool.read(2 * self._size, self._size).view(np.float32)

    def check(self, run: Callable[[], object], first: float, second: float, times: int = 1) -> None:
        """Run with new terms and check the sum; the model adds the second term ``times`` times."""
        self.fill(first, second)
        run()
        np.testing.assert_array_equal(self.total(), np.float32(first + times * second))


def addition_in_ashmem(elements: int = ELEMENTS) -> Addition:
    return Addition(create_ashmem(3 * 4 * elements), elements)
