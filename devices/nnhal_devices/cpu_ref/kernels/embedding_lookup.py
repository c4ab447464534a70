"""EMBEDDING_LOOKUP."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.embedding_lookup import Input
from nnhal_devices.cpu_ref.kernels._types import Array


def embedding_lookup(op: OperationContext) -> tuple[Array, ...]:
    """The values at the indices."""
    return (np.take(op.value(Input.VALUES), op.value(Input.LOOKUPS), 0),)
