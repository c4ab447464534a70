"""TANH."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.activation import TanhInput


def tanh(op: OperationContext) -> tuple[Array, ...]:
    """The hyperbolic tangent."""
    return (from_real(op, np.tanh(to_real(op, TanhInput.INPUT))),)
