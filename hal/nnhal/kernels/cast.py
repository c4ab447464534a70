"""CAST."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.conversion import CastInput
from nnhal.types.layout import ELEMENT_TYPES


def cast(op: OperationContext) -> tuple[Array, ...]:
    """The stored numbers in another type. Integers drop the fraction and saturate; nan becomes 0."""
    values, element = op.value(CastInput.INPUT), ELEMENT_TYPES[op.outputs[0].type]
    if not np.issubdtype(element, np.integer):
        return (values.astype(element),)
    info = np.iinfo(element)  # type: ignore[type-var]
    return (np.clip(np.nan_to_num(values.astype(np.float64)), info.min, info.max).astype(element),)
