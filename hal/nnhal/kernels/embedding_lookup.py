"""EMBEDDING_LOOKUP."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lookup import EmbeddingLookupInput


def embedding_lookup(op: OperationContext) -> tuple[Array, ...]:
    """The values at the indices."""
    return (np.take(op.value(EmbeddingLookupInput.VALUES), op.value(EmbeddingLookupInput.LOOKUPS), 0),)
