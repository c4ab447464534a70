"""SELECT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import as_output
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import SelectInput


def select(op: OperationContext) -> tuple[Array, ...]:
    """The first where the mask is true, the second elsewhere."""
    return (np.where(op.value(SelectInput.MASK), as_output(op, SelectInput.FIRST), as_output(op, SelectInput.SECOND)),)
