"""Add operations to a HAL model for one of the user's nodes, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.types import FusedActivation, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import describe
from nnhal_frontends.builder import ModelBuilder
from nnhal_frontends.errors import UnsupportedNode

ACTIVATIONS = {
    FusedActivation.RELU: OperationType.RELU,
    FusedActivation.RELU1: OperationType.RELU1,
    FusedActivation.RELU6: OperationType.RELU6,
}
"""The operations that compute the same as a fused activation."""

MOST_PARAMETERS = 1 << 16
"""The longest list of integers that a node may have as axes, lengths or paddings."""


class OperationBuilder(ABC):
    """Adds the operations of one node. Methods raise UnsupportedNode if the HAL does not take what they are to add."""

    __slots__ = ()

    @property
    @abstractmethod
    def model(self) -> ModelBuilder:
        """The model that operations are added to."""

    @property
    @abstractmethod
    def origins(self) -> list[tuple[str, ...]]:
        """The user's nodes that each operation of the model stands for."""

    @property
    @abstractmethod
    def stands_for(self) -> tuple[str, ...]:
        """The user's nodes that are being converted."""

    @abstractmethod
    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        """Return the error to raise about the node."""

    @abstractmethod
    def input(self, index: int) -> int:
        """Return the operand of an input of the node."""

    @abstractmethod
    def finish(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add the operation that gives the first result of the node."""

    def operand(self, index: int) -> Operand:
        """Return an operand of the model by its index."""
        return self.model.operands[index]

    def int32(self, value: int) -> int:
        """Add an INT32 scalar."""
        return self.model.scalar(OperandType.INT32, value)

    def boolean(self, value: bool) -> int:
        """Add a BOOL scalar."""
        return self.model.scalar(OperandType.BOOL, value)

    def real_like(self, operand: int, value: float) -> int:
        """Add a float scalar of the precision of an operand."""
        half = self.operand(operand).type == OperandType.TENSOR_FLOAT16
        return self.add_constant(OperandType.FLOAT16 if half else OperandType.FLOAT32, np.array(value))

    def vector(self, values: Sequence[int]) -> int:
        """Add a TENSOR_INT32 of rank 1."""
        return self.add_constant(OperandType.TENSOR_INT32, np.array(values))

    def add_constant(self, code: OperandType, values: Array, **quantization: Any) -> int:
        """Add a constant operand; ``quantization`` as for ModelBuilder.constant.

        Raises UnsupportedNode if there are no elements.
        """
        if not values.size:
            raise self.unsupported("a constant without elements", "at least one")
        return self.model.constant(code, values, **quantization)

    def listed(self, values: Array, what: str) -> list[int]:
        """Return integers that are parameters of an operation. Raises UnsupportedNode if there are too many."""
        if values.size > MOST_PARAMETERS:
            raise self.unsupported(f"its {what} are {values.size} numbers", f"at most {MOST_PARAMETERS}")
        return [int(value) for value in values.reshape(-1)]

    def reserve(self, shape: Sequence[int], element_type: np.dtype[np.generic]) -> None:
        """Make room for a constant that is not in the user's file. Raises UnsupportedNode if there is too little."""
        size = prod(shape) * element_type.itemsize
        if size > self.model.room:
            raise self.unsupported(
                f"it needs a constant of {describe(shape)} that the file does not have, of {size} bytes",
                f"{self.model.room} bytes more",
            )
        self.model.room -= size

    def absent(self, code: OperandType | int) -> int:
        """Add an operand for an optional input that is left out."""
        return self.model.add(Operand(code, lifetime=OperandLifeTime.NO_VALUE))

    def add(self, code: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation whose outputs exist already."""
        try:
            self.model.operation(code, inputs, outputs)
        except HalError as error:
            raise self.unsupported(error.message) from error
        self.origins.append(self.stands_for)

    def apply(self, code: OperationType, inputs: Sequence[int], like: int | Operand | None = None) -> int:
        """Add an operation whose result only this node uses, and return that result.

        The result has the type and scale of ``like``, by default the first input.
        """
        result = self.new(inputs[0] if like is None else like)
        self.add(code, inputs, [result])
        return result

    def new(self, like: int | Operand) -> int:
        """Add an operand for the result of an operation, with the type and scale of another operand."""
        pattern = like if isinstance(like, Operand) else self.operand(like)
        return self.model.add(Operand(pattern.type, (), pattern.scale, pattern.zero_point))

    def reshape(self, operand: int, shape: Sequence[int]) -> int:
        """Reshape an operand; one dimension may be unknown."""
        return self.apply(OperationType.RESHAPE, [operand, self.shape_constant(shape)])

    def shape_constant(self, shape: Sequence[int]) -> int:
        """Add a shape as RESHAPE's input. Raises UnsupportedNode if more than one dimension is unknown."""
        if list(shape).count(0) > 1:
            raise self.unsupported(
                f"shape {describe(shape)} has more than one unknown dimension",
                "at most one; give the model's inputs fixed shapes",
            )
        return self.vector([length or -1 for length in shape] or [1])

    def ceil(self) -> None:
        """Give -floor(-x) of input 0: the HAL has no ceiling."""
        below = self.apply(OperationType.FLOOR, [self.apply(OperationType.NEG, [self.input(0)])])
        self.finish(OperationType.NEG, [below])
