"""PAD and PAD_V2."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import PadInput, paddings_of_pad


def pad(op: OperationContext) -> tuple[Array, ...]:
    """A border of the logical zero."""
    return (
        np.pad(op.value(PadInput.INPUT), paddings_of_pad(op), constant_values=op.inputs[PadInput.INPUT].zero_point),
    )


def pad_v2(op: OperationContext) -> tuple[Array, ...]:
    """A border of the given value."""
    return (np.pad(op.value(PadInput.INPUT), paddings_of_pad(op), constant_values=op.value(PadInput.VALUE)),)
