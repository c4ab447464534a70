"""FILL."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.fill import Input


def fill(op: OperationContext) -> tuple[Array, ...]:
    """All elements equal."""
    value = op.value(Input.VALUE)
    return (np.full(op.integers(Input.DIMENSIONS), value, value.dtype),)
