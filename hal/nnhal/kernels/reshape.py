"""RESHAPE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.reshape import Input, prepare


def reshape(op: OperationContext) -> tuple[Array, ...]:
    """The same elements in other dimensions."""
    (dimensions,) = prepare(op)
    return (op.value(Input.INPUT).reshape(dimensions),)
