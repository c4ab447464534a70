"""STRIDED_SLICE."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.strided_slice import Input, prepare, ranges


def strided_slice(op: OperationContext) -> tuple[Array, ...]:
    """The elements at all combinations of the axes' indices."""
    return (op.value(Input.INPUT)[np.ix_(*ranges(op))].reshape(prepare(op)[0]),)
