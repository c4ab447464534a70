"""SELECT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import as_output
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.select import Input


def select(op: OperationContext) -> tuple[Array, ...]:
    """The first where the mask is true, the second elsewhere."""
    return (np.where(op.value(Input.MASK), as_output(op, Input.FIRST), as_output(op, Input.SECOND)),)
