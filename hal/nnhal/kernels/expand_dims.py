"""EXPAND_DIMS."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.shape import ExpandDimsInput, prepare_expand_dims


def expand_dims(op: OperationContext) -> tuple[Array, ...]:
    """The same elements with one more axis."""
    return (op.value(ExpandDimsInput.INPUT).reshape(prepare_expand_dims(op)[0]),)
