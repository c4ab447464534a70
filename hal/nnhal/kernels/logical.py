"""LOGICAL_AND and LOGICAL_OR."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._pairwise import Input


def logical_and(op: OperationContext) -> tuple[Array, ...]:
    """Whether both are true."""
    return (np.logical_and(op.value(Input.FIRST), op.value(Input.SECOND)).astype(np.uint8),)


def logical_or(op: OperationContext) -> tuple[Array, ...]:
    """Whether at least one is true."""
    return (np.logical_or(op.value(Input.FIRST), op.value(Input.SECOND)).astype(np.uint8),)
