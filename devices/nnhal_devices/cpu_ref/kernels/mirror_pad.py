"""MIRROR_PAD."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.mirror_pad import Input, MirrorPadMode, paddings
from nnhal_devices.cpu_ref.kernels._types import Array


def mirror_pad(op: OperationContext) -> tuple[Array, ...]:
    """The tensor with its reflections around it."""
    values, borders = op.value(Input.INPUT), paddings(op)
    if op.integer(Input.MODE) == MirrorPadMode.REFLECT:
        return (np.pad(values, borders, mode="reflect"),)
    return (np.pad(values, borders, mode="symmetric"),)
