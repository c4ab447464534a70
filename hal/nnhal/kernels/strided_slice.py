"""STRIDED_SLICE."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.joining import StridedSliceInput, prepare_strided_slice, strided_ranges


def strided_slice(op: OperationContext) -> tuple[Array, ...]:
    """The elements at all combinations of the axes' indices."""
    return (op.value(StridedSliceInput.INPUT)[np.ix_(*strided_ranges(op))].reshape(prepare_strided_slice(op)[0]),)
