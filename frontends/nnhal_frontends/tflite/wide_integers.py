"""Tensors of int64 that the HAL may hold, whose integers have 32 bits: those whose values provably fit."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from tflite import TensorType

from nnhal_frontends.tflite.graph import TfliteGraph, TfliteOperator, TfliteTensor

_COUNTS = frozenset({"ARG_MAX", "ARG_MIN", "RANK", "SHAPE"})
"""Operators whose results are lengths or places of tensors."""
_MOVES = frozenset(
    {
        *("BROADCAST_TO", "CONCATENATION", "EXPAND_DIMS", "FILL", "GATHER", "GATHER_ND", "MAXIMUM", "MINIMUM"),
        *("MIRROR_PAD", "PACK", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "REVERSE_V2", "SELECT"),
        *("SELECT_V2", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK"),
        "ZEROS_LIKE",
    }
)
"""Operators whose results have the elements of their inputs, or zeros."""
_NARROW = frozenset({TensorType.BOOL, TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.INT32})
_INT32 = np.iinfo(np.int32)


def wide_integers(graph: TfliteGraph, left: Collection[int]) -> frozenset[int]:
    """Return the tensors of int64 that must keep their 64 bits, for which operators are left to the extension.

    Those are all but constants, which are looked at when they are read, and what provably fits 32 bits and operators
    other than those in ``left`` make or read.
    """
    wide = {i for i, tensor in enumerate(graph.tensors) if tensor.code == TensorType.INT64 and tensor.data is None}
    if not wide:
        return frozenset()
    proven: set[int] = set()
    for operator in graph.operators:
        if _fits(graph, operator, proven):
            proven.update(operator.outputs)
    kept = {
        i for number, each in enumerate(graph.operators) if number not in left for i in (*each.inputs, *each.outputs)
    }
    return frozenset(wide - (proven & kept))


def _fits(graph: TfliteGraph, operator: TfliteOperator, proven: Collection[int]) -> bool:
    """Return whether the results of an operator fit 32 bits if those in ``proven`` do."""
    if operator.op_type in _COUNTS:
        return True
    if operator.op_type != "CAST" and operator.op_type not in _MOVES:
        return False
    inputs = [(index, graph.tensors[index]) for index in operator.inputs if index is not None]
    return all(index in proven or tensor.code in _NARROW or _is_small(tensor) for index, tensor in inputs)


def _is_small(tensor: TfliteTensor) -> bool:
    """Return whether a tensor is a constant of int64 whose values fit 32 bits."""
    if tensor.code != TensorType.INT64 or tensor.data is None or len(tensor.data) % 8 or tensor.sparsity is not None:
        return False
    values = tensor.data.view(np.int64)
    return not values.size or bool(_INT32.min <= values.min() and values.max() <= _INT32.max)
