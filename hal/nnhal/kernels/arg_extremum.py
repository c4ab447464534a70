"""ARGMAX and ARGMIN: the first of equal elements counts."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.reduction import ArgExtremumInput, prepare_arg_extremum


def argmax(op: OperationContext) -> tuple[Array, ...]:
    """The index of the largest element."""
    return _shaped(op, np.argmax(op.value(ArgExtremumInput.INPUT), op.integer(ArgExtremumInput.AXIS)))


def argmin(op: OperationContext) -> tuple[Array, ...]:
    """The index of the smallest element."""
    return _shaped(op, np.argmin(op.value(ArgExtremumInput.INPUT), op.integer(ArgExtremumInput.AXIS)))


def _shaped(op: OperationContext, indices: Array | np.intp) -> tuple[Array, ...]:
    return (np.asarray(indices, np.int32).reshape(prepare_arg_extremum(op)[0]),)
