"""TRANSPOSE."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.transpose import Input, permutation
from nnhal_devices.cpu_ref.kernels._types import Array


def transpose(op: OperationContext) -> tuple[Array, ...]:
    """The axes in another order."""
    return (np.transpose(op.value(Input.INPUT), permutation(op)),)
