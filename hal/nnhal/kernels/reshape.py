"""RESHAPE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.shape import ReshapeInput, prepare_reshape


def reshape(op: OperationContext) -> tuple[Array, ...]:
    """The same elements in other dimensions."""
    (dimensions,) = prepare_reshape(op)
    return (op.value(ReshapeInput.INPUT).reshape(dimensions),)
