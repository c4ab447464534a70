"""SQUEEZE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.shape import SqueezeInput, prepare_squeeze


def squeeze(op: OperationContext) -> tuple[Array, ...]:
    """The same elements without the axes."""
    return (op.value(SqueezeInput.INPUT).reshape(prepare_squeeze(op)[0]),)
