"""REVERSE."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.reverse import Input, axis_of_reversal
from nnhal_devices.cpu_ref.kernels._types import Array


def reverse(op: OperationContext) -> tuple[Array, ...]:
    """The elements along the axis in reverse order."""
    return (np.flip(op.value(Input.INPUT), axis_of_reversal(op)),)
