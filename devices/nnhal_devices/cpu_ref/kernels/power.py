"""POW."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.power import Input
from nnhal_devices.cpu_ref.kernels._quantization import from_real, to_real
from nnhal_devices.cpu_ref.kernels._types import Array


def power(op: OperationContext) -> tuple[Array, ...]:
    """The first to the power of the second."""
    return (from_real(op, np.power(to_real(op, Input.FIRST), to_real(op, Input.SECOND))),)
