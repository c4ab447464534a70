"""SQUEEZE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.squeeze import Input, prepare


def squeeze(op: OperationContext) -> tuple[Array, ...]:
    """The same elements without the axes."""
    return (op.value(Input.INPUT).reshape(prepare(op)[0]),)
