"""MIRROR_PAD."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import MirrorPadInput, MirrorPadMode, paddings_of_mirror_pad


def mirror_pad(op: OperationContext) -> tuple[Array, ...]:
    """The tensor with its reflections around it."""
    values, borders = op.value(MirrorPadInput.INPUT), paddings_of_mirror_pad(op)
    if op.integer(MirrorPadInput.MODE) == MirrorPadMode.REFLECT:
        return (np.pad(values, borders, mode="reflect"),)
    return (np.pad(values, borders, mode="symmetric"),)
