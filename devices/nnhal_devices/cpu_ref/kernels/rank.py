"""RANK."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.rank import Input
from nnhal_devices.cpu_ref.kernels._types import Array


def rank(op: OperationContext) -> tuple[Array, ...]:
    """The number of axes."""
    return (np.array(len(op.dimensions(Input.INPUT)), np.int32),)
