"""EXPAND_DIMS."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.expand_dims import Input, prepare


def expand_dims(op: OperationContext) -> tuple[Array, ...]:
    """The same elements with one more axis."""
    return (op.value(Input.INPUT).reshape(prepare(op)[0]),)
