"""EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL and NOT_EQUAL."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels._quantization import to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._types import B8, QUANT8
from nnhal.operations.elementwise import PairwiseInput

_Comparison = Callable[[Array, Array], Array]


def equal(op: OperationContext) -> tuple[Array, ...]:
    """a == b."""
    return _compare(op, np.equal)


def greater(op: OperationContext) -> tuple[Array, ...]:
    """a > b."""
    return _compare(op, np.greater)


def greater_equal(op: OperationContext) -> tuple[Array, ...]:
    """a >= b."""
    return _compare(op, np.greater_equal)


def less(op: OperationContext) -> tuple[Array, ...]:
    """a < b."""
    return _compare(op, np.less)


def less_equal(op: OperationContext) -> tuple[Array, ...]:
    """a <= b."""
    return _compare(op, np.less_equal)


def not_equal(op: OperationContext) -> tuple[Array, ...]:
    """a != b."""
    return _compare(op, np.not_equal)


def _compare(op: OperationContext, comparison: _Comparison) -> tuple[Array, ...]:
    return (comparison(_operand(op, PairwiseInput.FIRST), _operand(op, PairwiseInput.SECOND)).astype(np.uint8),)


def _operand(op: OperationContext, index: int) -> Array:
    if op.main_type() == B8:
        return op.value(index).astype(np.bool_)
    return to_real(op, index) if op.main_type() in QUANT8 else op.value(index)
