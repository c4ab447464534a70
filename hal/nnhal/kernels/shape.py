"""Operations that change dimensions and no values."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.operations import OperationContext
from nnhal.operations.shape import (
    ExpandDimsInput,
    RankInput,
    ReshapeInput,
    SqueezeInput,
    prepare_expand_dims,
    prepare_reshape,
    prepare_squeeze,
)


def reshape(op: OperationContext) -> tuple[Array, ...]:
    """Return the same elements in other dimensions."""
    (dimensions,) = prepare_reshape(op)
    return (op.value(ReshapeInput.INPUT).reshape(dimensions),)


def squeeze(op: OperationContext) -> tuple[Array, ...]:
    """Return the same elements without the axes."""
    return (op.value(SqueezeInput.INPUT).reshape(prepare_squeeze(op)[0]),)


def expand_dims(op: OperationContext) -> tuple[Array, ...]:
    """Return the same elements with one more axis."""
    return (op.value(ExpandDimsInput.INPUT).reshape(prepare_expand_dims(op)[0]),)


def rank(op: OperationContext) -> tuple[Array, ...]:
    """The number of axes."""
    return (np.array(len(op.dimensions(RankInput.INPUT)), np.int32),)
