"""EXPAND_DIMS."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.expand_dims import Input, prepare
from nnhal_devices.cpu_ref.kernels._types import Array


def expand_dims(op: OperationContext) -> tuple[Array, ...]:
    """The same elements with one more axis."""
    return (op.value(Input.INPUT).reshape(prepare(op)[0]),)
