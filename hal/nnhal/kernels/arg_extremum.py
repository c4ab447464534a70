"""ARGMAX and ARGMIN: the first of equal elements counts."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.arg_extremum import Input, prepare


def argmax(op: OperationContext) -> tuple[Array, ...]:
    """The index of the largest element."""
    return _shaped(op, np.argmax(op.value(Input.INPUT), op.integer(Input.AXIS)))


def argmin(op: OperationContext) -> tuple[Array, ...]:
    """The index of the smallest element."""
    return _shaped(op, np.argmin(op.value(Input.INPUT), op.integer(Input.AXIS)))


def _shaped(op: OperationContext, indices: Array | np.intp) -> tuple[Array, ...]:
    return (np.asarray(indices, np.int32).reshape(prepare(op)[0]),)
