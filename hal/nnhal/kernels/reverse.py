"""REVERSE."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import ReverseInput, axis_of_reversal


def reverse(op: OperationContext) -> tuple[Array, ...]:
    """The elements along the axis in reverse order."""
    return (np.flip(op.value(ReverseInput.INPUT), axis_of_reversal(op)),)
