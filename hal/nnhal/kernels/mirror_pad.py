"""MIRROR_PAD."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.mirror_pad import Input, MirrorPadMode, paddings


def mirror_pad(op: OperationContext) -> tuple[Array, ...]:
    """The tensor with its reflections around it."""
    values, borders = op.value(Input.INPUT), paddings(op)
    if op.integer(Input.MODE) == MirrorPadMode.REFLECT:
        return (np.pad(values, borders, mode="reflect"),)
    return (np.pad(values, borders, mode="symmetric"),)
