"""HASHTABLE_LOOKUP."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lookup import HashtableLookupInput, prepare_hashtable_lookup


def hashtable_lookup(op: OperationContext) -> tuple[Array, ...]:
    """The values of the keys, with zeros for unknown keys, and whether each key is known. Keys are ascending."""
    lookups, keys, values = (op.value(index) for index in HashtableLookupInput)
    hits = np.isin(lookups, keys)
    result = np.zeros(prepare_hashtable_lookup(op)[0], values.dtype)
    result[hits] = values[np.searchsorted(keys, lookups[hits])]
    return result, hits.astype(np.uint8)
