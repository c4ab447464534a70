"""Operators over constants, computed here: what files do to shapes before they use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tflite import ConcatenationOptions, GatherOptions, PackOptions, ReducerOptions

from nnhal.arrays import Array
from nnhal_service.frontends.tflite.builder import OperatorBuilder
from nnhal_service.frontends.tflite.ops.slicing import slices_of
from nnhal_service.frontends.tflite.tensors import element_type

_Fold = Callable[[OperatorBuilder, Sequence[Array]], Array]
_WHOLE = "iu"
_LEAST_BITS = 32


def fold(b: OperatorBuilder) -> bool:
    """Give an operator's result where it is one of integers that are known before execution; whether it is."""
    folding = FOLDINGS.get(b.operator.type)
    if folding is None or len(b.operator.outputs) != 1 or not _is_whole(b):
        return False
    found = [b.constant(index) for index in range(len(b.operator.inputs))]
    values = [value for value in found if value is not None]
    if not values or len(values) < len(found):
        return False
    try:
        with np.errstate(all="ignore"):  # integers wrap around, as they do at run time
            b.fold(np.asarray(folding(b, values)).astype(element_type(b.target()).numpy))
    except (ValueError, IndexError, TypeError) as error:
        raise b.unsupported(f"it cannot be computed: {error}") from error
    return True
