"""Building small models, and running them on a driver in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import (
    ChannelQuant,
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal.validation import validate_model
from nnhal_devices.driver import Argument, Control, Driver, Outcome, PrepareOptions


class Recipe:
    """A builder of a main subgraph. Methods return the indexes of the operands that they add."""

    def __init__(self) -> None:
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._values = bytearray()

    def input(self, code: OperandType, dimensions: Dimensions = (), scale: float = 0.0, zero_point: int = 0) -> int:
        return self._add(Operand(code, dimensions, scale, zero_point, OperandLifeTime.SUBGRAPH_INPUT))

    def constant(
        self,
        code: OperandType,
        values: Any,
        scale: float = 0.0,
        zero_point: int = 0,
        channels: ChannelQuant | None = None,
    ) -> int:
        """Add a constant; 0-d values make a scalar."""
        array = np.asarray(values).astype(ELEMENT_TYPES[code])
        self._values.extend(bytes(-len(self._values) % 4))
        location = DataLocation(0, len(self._values), array.nbytes)
        self._values.extend(array.tobytes())
        return self._add(
            Operand(code, array.shape, scale, zero_point, OperandLifeTime.CONSTANT_COPY, location, channels)
        )

    def omitted(self, code: OperandType) -> int:
        return self._add(Operand(code, lifetime=OperandLifeTime.NO_VALUE))

    def integers(self, *values: int) -> list[int]:
        """Add constant INT32 scalars."""
        return [self.constant(OperandType.INT32, value) for value in values]

    def operation(self, code: OperationType, inputs: Sequence[int], *outputs: Operand) -> int:
        """Add an operation and return the index of its first output; the others follow."""
        indexes = [self._add(output) for output in outputs]
        self._operations.append(Operation(code, tuple(inputs), tuple(indexes)))
        return indexes[0]

    def build(self, *outputs: int, relaxed: bool = False) -> ResolvedModel:
        operands = list(self._operands)
        for index in outputs:
            operands[index] = replace(operands[index], lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
        inputs = tuple(i for i, o in enumerate(operands) if o.lifetime == OperandLifeTime.SUBGRAPH_INPUT)
        main = Subgraph(tuple(operands), tuple(self._operations), inputs, outputs)
        model = Model(main, (), bytes(self._values), (), relaxed)
        validate_model(model)
        return ResolvedModel(model, inline_constants(model))

    def _add(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1


def floor_model(operations: int = 1) -> Model:
    """Return a chain of FLOOR operations on one element."""
    recipe = Recipe()
    value = recipe.input(OperandType.TENSOR_FLOAT32, (1,))
    for _ in range(operations):
        value = recipe.operation(OperationType.FLOOR, [value], Operand(OperandType.TENSOR_FLOAT32, (1,)))
    return recipe.build(value).model


def memory_of(values: Array) -> Argument:
    return Argument(values.reshape(-1).view(np.uint8).copy(), values.shape)


def run_on(driver: Driver, model: ResolvedModel, *inputs: Array) -> list[Array]:
    """Prepare and run a model that the driver supports entirely. Each output may have up to 2 MiB."""
    main = model.model.main
    codes = [main.operands[index].type for index in main.output_indexes]
    memories = [np.zeros(2 << 20, np.uint8) for _ in codes]
    bound = [
        Argument(memory, main.operands[index].dimensions)
        for memory, index in zip(memories, main.output_indexes, strict=True)
    ]
    outcome = driver.prepare(model, PrepareOptions()).bind([memory_of(a) for a in inputs], bound).run(Control())
    return [
        _read(memory, code, dimensions)
        for memory, code, dimensions in zip(memories, codes, _dimensions(outcome, bound), strict=True)
    ]


def _dimensions(outcome: Outcome, bound: Sequence[Argument]) -> Sequence[Dimensions]:
    return outcome.dimensions or [argument.dimensions for argument in bound]


def _read(memory: Array, code: int, dimensions: Dimensions) -> Array:
    element = ELEMENT_TYPES[code]
    return memory[: prod(dimensions) * element.itemsize].view(element).reshape(dimensions)
