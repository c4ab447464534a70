"""Compute operators over constant integers, with which files compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tflite import (
    AddOptions,
    ConcatenationOptions,
    GatherOptions,
    MulOptions,
    PackOptions,
    ReducerOptions,
    SplitOptions,
    SubOptions,
    UnpackOptions,
)

from nnhal.arrays import Array
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops.slicing import slices_of
from nnhal_frontends.tflite.tensors import ELEMENTS

_Folding = Callable[[OperatorBuilder, Sequence[Array]], Array]
_MOST_ELEMENTS = 1024
"""Shapes are short; longer constants are data."""
_MOST_COMBINATIONS = 1 << 16
"""The most combinations of elements of the first two inputs; each may be an element of the result."""
_WHOLE_NUMBERS = (np.dtype(np.int32), np.dtype(np.int64))


def fold(b: OperatorBuilder) -> bool:
    """Give an operator's result if it consists of integers known before execution, and return whether it does."""
    folding = FOLDINGS.get(b.operator.op_type)
    parting = PARTINGS.get(b.operator.op_type)
    if (folding is None or len(b.operator.outputs) != 1) and (parting is None or not b.operator.outputs):
        return False
    element = ELEMENTS.get(b.target().code)
    values = [value for index in range(len(b.operator.inputs)) if (value := b.constant(index)) is not None]
    if element is None or element.numpy not in _WHOLE_NUMBERS or not values or len(values) < len(b.operator.inputs):
        return False
    sizes = [value.size for value in values]
    if sum(sizes) > _MOST_ELEMENTS or prod(sizes[:2]) > _MOST_COMBINATIONS:
        return False
    try:
        with np.errstate(all="ignore"):  # they wrap around, as at run time
            results = [folding(b, values)] if folding else parting(b, values) if parting else []
            found = [np.asarray(result).astype(element.numpy) for result in results]
    except (ArithmeticError, ValueError, IndexError) as error:
        raise b.unsupported(f"it cannot be computed: {error}") from error
    if len(found) != len(b.operator.outputs) or max(result.size for result in found) > _MOST_ELEMENTS:
        return False
    for output, result in enumerate(found):
        b.fold(result, output)
    return True


def _arithmetic(function: Callable[[Array, Array], Array], kind: Any) -> _Folding:
    def fold(b: OperatorBuilder, values: Sequence[Array]) -> Array:
        _require_none(b, b.options(kind).FusedActivationFunction, "fused activation")
        return function(values[0], values[1])

    return fold


def _of_two(function: Callable[[Array, Array], Array]) -> _Folding:
    return lambda _, values: function(values[0], values[1])


def _pack(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    return np.stack(values, b.options(PackOptions).Axis)


def _concatenation(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    options = b.options(ConcatenationOptions)
    _require_none(b, options.FusedActivationFunction, "fused activation")
    return np.concatenate(values, options.Axis)


def _gather(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    options = b.options(GatherOptions)
    _require_none(b, options.BatchDims, "batch axes")
    return np.take(values[0], values[1], options.Axis)


def _strided_slice(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    tensor, slices = values[0], slices_of(b, values[0].ndim)
    taken = tensor[np.ix_(*slices.ranges(tensor.shape))]
    return taken.reshape([1 if axis is None else taken.shape[axis] for axis in slices.result])


def _squeeze(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    return np.squeeze(values[0], b.operator.vector or None)


def _expand_dims(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    del b
    return np.expand_dims(values[0], int(values[1].item()))


def _product(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    axes = tuple(int(axis) for axis in values[1].reshape(-1))
    return np.asarray(np.prod(values[0], axes, keepdims=b.options(ReducerOptions).KeepDims))


def _split(b: OperatorBuilder, values: Sequence[Array]) -> list[Array]:
    return np.split(values[1], b.options(SplitOptions).NumSplits, int(values[0].item()))


def _split_v(b: OperatorBuilder, values: Sequence[Array]) -> list[Array]:
    del b
    axis, sizes = int(values[2].item()), values[1].reshape(-1).astype(np.int64)
    sizes = np.where(sizes == -1, values[0].shape[axis] - sizes[sizes != -1].sum(), sizes)
    if sizes.min(initial=0) < 0 or sizes.sum() != values[0].shape[axis]:
        raise ValueError(f"sizes {sizes.tolist()} of {values[0].shape[axis]} elements")
    return np.split(values[0], np.cumsum(sizes)[:-1], axis)


def _unpack(b: OperatorBuilder, values: Sequence[Array]) -> list[Array]:
    return list(np.moveaxis(values[0], b.options(UnpackOptions).Axis, 0))


def _slice(b: OperatorBuilder, values: Sequence[Array]) -> Array:
    del b
    tensor, begins, sizes = values
    ends = [
        length if size == -1 else begin + size
        for begin, size, length in zip(begins.tolist(), sizes.tolist(), tensor.shape, strict=True)
    ]
    if min(begins.tolist(), default=0) < 0 or any(end > length for end, length in zip(ends, tensor.shape, strict=True)):
        raise ValueError(f"a slice from {begins.tolist()} to {ends} of {list(tensor.shape)}")
    return tensor[tuple(slice(begin, end) for begin, end in zip(begins.tolist(), ends, strict=True))]


def _require_none(b: OperatorBuilder, number: int, what: str) -> None:
    if number:
        raise b.unsupported(f"{what} {number} on integers", "none")


FOLDINGS: dict[str, _Folding] = {
    "ADD": _arithmetic(np.add, AddOptions),
    "CAST": lambda _, values: values[0],
    "CONCATENATION": _concatenation,
    "EXPAND_DIMS": _expand_dims,
    "FLOOR_DIV": _of_two(np.floor_divide),
    "GATHER": _gather,
    "MAXIMUM": _of_two(np.maximum),
    "MINIMUM": _of_two(np.minimum),
    "MUL": _arithmetic(np.multiply, MulOptions),
    "PACK": _pack,
    "REDUCE_PROD": _product,
    "RESHAPE": _of_two(np.reshape),
    "SLICE": _slice,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _arithmetic(np.subtract, SubOptions),
}
"""The functions by operator."""

PARTINGS: dict[str, Callable[[OperatorBuilder, Sequence[Array]], list[Array]]] = {
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "UNPACK": _unpack,
}
"""The functions of operators with several results."""
