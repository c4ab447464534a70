"""PACK."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.pack import Input


def pack(op: OperationContext) -> tuple[Array, ...]:
    """The tensors along a new axis."""
    tensors = [op.value(index) for index in range(Input.FIRST, len(op.inputs))]
    return (np.stack(tensors, op.integer(Input.AXIS)),)
