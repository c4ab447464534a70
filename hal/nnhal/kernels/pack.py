"""PACK."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.joining import PackInput


def pack(op: OperationContext) -> tuple[Array, ...]:
    """The tensors along a new axis."""
    tensors = [op.value(index) for index in range(PackInput.FIRST, len(op.inputs))]
    return (np.stack(tensors, op.integer(PackInput.AXIS)),)
