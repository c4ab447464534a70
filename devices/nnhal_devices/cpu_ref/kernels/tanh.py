"""TANH."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.tanh import Input
from nnhal_devices.cpu_ref.kernels._quantization import from_real, to_real
from nnhal_devices.cpu_ref.kernels._types import Array


def tanh(op: OperationContext) -> tuple[Array, ...]:
    """The hyperbolic tangent."""
    return (from_real(op, np.tanh(to_real(op, Input.INPUT))),)
