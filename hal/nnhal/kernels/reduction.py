"""Reductions: along axes, to indexes of extrema, to the largest values.

REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD and REDUCE_SUM.

No elements reduce to the value that changes nothing: true, false, the least and the largest of the type, 1 and 0.

ARGMAX and ARGMIN: the first of equal elements counts.

A NaN is neither greater nor less than what it is compared with, as in NNAPI's reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.quantization import clamp, divide_half_away, from_real, range_of, to_real
from nnhal.operations import OperationContext
from nnhal.operations.operand_types import QUANT8
from nnhal.operations.reduction import (
    ArgExtremumInput,
    MeanInput,
    ReduceInput,
    TopkV2Input,
    axes_of_mean,
    axes_of_reduce,
    prepare_arg_extremum,
    prepare_mean,
    prepare_reduce,
)


def reduce_all(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(
        op, np.logical_and.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op)).astype(np.uint8)
    )


def reduce_any(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(
        op, np.logical_or.reduce(op.value(ReduceInput.INPUT), axis=axes_of_reduce(op)).astype(np.uint8)
    )


def reduce_max(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(op, extremum(np.fmax, op.value(ReduceInput.INPUT), axes_of_reduce(op), _bounds(op)[0]))


def reduce_min(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(op, extremum(np.fmin, op.value(ReduceInput.INPUT), axes_of_reduce(op), _bounds(op)[1]))


def extremum(extreme: np.ufunc, values: Array, axes: Sequence[int], initial: float) -> Array:
    """Return the extremes along axes as a comparison of each element with those before finds them: a NaN that comes
    first stays, no other is found. Other axes stay, those with ``initial`` if there are no elements.
    """
    found = np.asarray(extreme.reduce(values, axis=tuple(axes), initial=initial))
    if values.dtype.kind in "iub" or not values.size:
        return found
    first = values[tuple(0 if axis in axes else slice(None) for axis in range(values.ndim))]
    return np.where(np.isnan(first), first, found)


def reduce_prod(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(
        op, from_real(op, np.multiply.reduce(to_real(op, ReduceInput.INPUT), axis=axes_of_reduce(op)))
    )


def reduce_sum(op: OperationContext) -> tuple[Array, ...]:
    return _reduce_shaped(op, from_real(op, np.add.reduce(to_real(op, ReduceInput.INPUT), axis=axes_of_reduce(op))))


def _bounds(op: OperationContext) -> tuple[float, float]:
    return range_of(op.inputs[ReduceInput.INPUT]) if op.main_type() in QUANT8 else (-np.inf, np.inf)


def _reduce_shaped(op: OperationContext, values: Array) -> tuple[Array, ...]:
    return (values.reshape(prepare_reduce(op)[0]),)


def mean(op: OperationContext) -> tuple[Array, ...]:
    """Sums over the axes, divided by the number of elements. Input and output are quantised alike.

    The mean of nothing, of which the HAL says nothing, is 0.
    """
    axes, (dimensions,) = axes_of_mean(op), prepare_mean(op)
    if not op.value(MeanInput.INPUT).size:
        zero = op.outputs[0].zero_point if op.main_type() in QUANT8 else 0
        return (np.full(dimensions, zero, op.value(MeanInput.INPUT).dtype),)
    if op.main_type() not in QUANT8:
        return (from_real(op, to_real(op, MeanInput.INPUT).mean(axis=axes)).reshape(dimensions),)
    values = op.value(MeanInput.INPUT)
    sums = values.sum(axis=axes, dtype=np.int64)
    averages = divide_half_away(sums, prod(values.shape[axis] for axis in axes))
    return (clamp(averages, op.outputs[0]).reshape(dimensions),)


def argmax(op: OperationContext) -> tuple[Array, ...]:
    axis = op.integer(ArgExtremumInput.AXIS)
    return _arg_extremum_shaped(op, np.argmax(_without_nan(op.value(ArgExtremumInput.INPUT), axis, -np.inf), axis))


def argmin(op: OperationContext) -> tuple[Array, ...]:
    axis = op.integer(ArgExtremumInput.AXIS)
    return _arg_extremum_shaped(op, np.argmin(_without_nan(op.value(ArgExtremumInput.INPUT), axis, np.inf), axis))


def _without_nan(values: Array, axis: int, other: float) -> Array:
    """Return values with no NaN but the first along an axis, which no comparison finds greater or less."""
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return values
    kept = np.where(np.isnan(values), np.asarray(other, values.dtype), values)
    first = tuple(slice(0, 1) if index == axis % values.ndim else slice(None) for index in range(values.ndim))
    kept[first] = values[first]
    return kept


def _arg_extremum_shaped(op: OperationContext, indices: Array | np.intp) -> tuple[Array, ...]:
    return (np.asarray(indices, np.int32).reshape(prepare_arg_extremum(op)[0]),)


def topk_v2(op: OperationContext) -> tuple[Array, ...]:
    """The largest elements in descending order, and their indices. Of equal elements the last comes first."""
    values = op.value(TopkV2Input.INPUT)
    ascending = np.argsort(values, axis=-1, kind="stable")
    indices = ascending[..., ::-1][..., : op.integer(TopkV2Input.K)]
    return np.take_along_axis(values, indices, axis=-1), indices.astype(np.int32)
