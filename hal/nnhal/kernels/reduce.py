"""REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD and REDUCE_SUM.

No elements reduce to the value that changes nothing: true, false, the least and the largest of the type, 1 and 0.
"""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, range_of, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._types import QUANT8
from nnhal.operations.reduction import ReduceInput, axes_of_reduce, prepare_reduce


def reduce_all(op: OperationContext) -> tuple[Array, ...]:
    """Whether all are true."""
    return _shaped(op, np.logical_and.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op)).astype(np.uint8))


def reduce_any(op: OperationContext) -> tuple[Array, ...]:
    """Whether any is true."""
    return _shaped(op, np.logical_or.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op)).astype(np.uint8))


def reduce_max(op: OperationContext) -> tuple[Array, ...]:
    """The largest."""
    return _shaped(op, np.maximum.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op), initial=_bounds(op)[0]))


def reduce_min(op: OperationContext) -> tuple[Array, ...]:
    """The smallest."""
    return _shaped(op, np.minimum.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op), initial=_bounds(op)[1]))


def reduce_prod(op: OperationContext) -> tuple[Array, ...]:
    """The product."""
    return _shaped(op, from_real(op, np.multiply.reduce(to_real(op, ReduceInput.INPUT), axis=axes_of_reduce(op))))


def reduce_sum(op: OperationContext) -> tuple[Array, ...]:
    """The sum."""
    return _shaped(op, from_real(op, np.add.reduce(to_real(op, ReduceInput.INPUT), axis=axes_of_reduce(op))))


def _bounds(op: OperationContext) -> tuple[float, float]:
    return range_of(op.inputs[ReduceInput.INPUT]) if op.main_type() in QUANT8 else (-np.inf, np.inf)


def _shaped(op: OperationContext, values: Array) -> tuple[Array, ...]:
    return (values.reshape(prepare_reduce(op)[0]),)
