"""TOPK_V2."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.reduction import TopkV2Input


def topk_v2(op: OperationContext) -> tuple[Array, ...]:
    """The largest elements in descending order, and their indices. Of equal elements the last comes first."""
    values = op.value(TopkV2Input.INPUT)
    ascending = np.argsort(values, axis=-1, kind="stable")
    indices = ascending[..., ::-1][..., : op.integer(TopkV2Input.K)]
    return np.take_along_axis(values, indices, axis=-1), indices.astype(np.int32)
