"""EMBEDDING_LOOKUP."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.embedding_lookup import Input


def embedding_lookup(op: OperationContext) -> tuple[Array, ...]:
    """The values at the indices."""
    return (np.take(op.value(Input.VALUES), op.value(Input.LOOKUPS), 0),)
