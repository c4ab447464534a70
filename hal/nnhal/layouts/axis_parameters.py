"""Operations that name axes, and what they name if their tensors lie in another order in memory.

Each function takes an operation and the order of its tensors, and returns the orders of its outputs with the values of
the parameters that change, by position. It returns None if the operation cannot follow that order, and raises
UnknownYet if a parameter is no constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.orders import Order, permuted, without
from nnhal.operations import OperationContext
from nnhal.operations.joining import SlicingInput, StridedSliceInput
from nnhal.operations.lookup import GatherInput
from nnhal.operations.reduction import MeanInput, ReduceInput, axes_of_mean, axes_of_reduce
from nnhal.operations.shape import SqueezeInput


class Rewritten(NamedTuple):
    """An operation in another order. A parameter behind the last input is one that was left out."""

    stores: tuple[Order | None, ...]
    parameters: Mapping[int, Array]


Rewrite: TypeAlias = Callable[[OperationContext, Order], Rewritten | None]

INPUT = 0
"""The position of the tensor in operations that have one."""


def element_wise(op: OperationContext, order: Order) -> Rewritten:
    return Rewritten((order,) * len(op.outputs), {})


def along(position: int | None, default: int | None = None) -> Rewrite:
    """Return what rewrites an operation along one axis, an INT32; None for the last input."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten:
        index = len(op.inputs) - 1 if position is None else position
        axis = op.integer(index, default) % len(order)
        return Rewritten((order,) * len(op.outputs), {index: _scalar(order.index(axis))})

    return rewrite


def extremum_along(position: int) -> Rewrite:
    """Return what rewrites an operation that removes the axis that it works along."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten:
        axis = op.integer(position) % len(order)
        return Rewritten((without(order, {axis}),), {position: _scalar(order.index(axis))})

    return rewrite


def per_axis(*positions: int) -> Rewrite:
    """Return what rewrites an operation whose parameters have an element or a row for each axis."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten | None:
        values = {position: op.value(position) for position in positions}
        if any(len(value) != len(order) for value in values.values()):
            return None
        return Rewritten((order,), {position: value[list(order)] for position, value in values.items()})

    return rewrite


def mean_over_axes(op: OperationContext, order: Order) -> Rewritten:
    axes = axes_of_mean(op)
    return _reduced(order, axes, op.integer(MeanInput.KEEP) > 0, MeanInput.AXES)


def reduce_over_axes(op: OperationContext, order: Order) -> Rewritten:
    axes = axes_of_reduce(op)
    return _reduced(order, axes, op.boolean(ReduceInput.KEEP_DIMS), ReduceInput.AXES)


def reversed_axis(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite REVERSE, whose only axis is a vector."""
    return Rewritten((order,), {1: _vector([order.index(axis % len(order)) for axis in op.integers(1)])})


def squeezed(op: OperationContext, order: Order) -> Rewritten:
    if not op.has(SqueezeInput.AXES):
        lengths = op.known_dimensions(SqueezeInput.INPUT)
        return Rewritten((without(order, [axis for axis, length in enumerate(lengths) if length == 1]),), {})
    axes = sorted({axis % len(order) for axis in op.integers(SqueezeInput.AXES)})
    return _reduced(order, tuple(axes), False, SqueezeInput.AXES)


def sliced(op: OperationContext, order: Order) -> Rewritten | None:
    return per_axis(SlicingInput.BEGIN, SlicingInput.SIZE)(op, order)


def sliced_in_strides(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite STRIDED_SLICE, whose masks have a bit for each axis."""
    names = StridedSliceInput
    rewritten = per_axis(names.BEGIN, names.END, names.STRIDES)(op, order)
    if rewritten is None:
        return None
    masks = {name: op.integer(name) for name in (names.BEGIN_MASK, names.END_MASK, names.SHRINK_MASK)}
    moved: dict[int, Array] = {
        name: _scalar(sum((mask >> axis & 1) << index for index, axis in enumerate(order)))
        for name, mask in masks.items()
    }
    shrunk = [axis for axis in order if masks[names.SHRINK_MASK] >> axis & 1]
    return Rewritten((without(order, shrunk),), {**rewritten.parameters, **moved})


def gathered(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite GATHER with a vector of indices, which keeps the rank."""
    if len(op.ranked(GatherInput.INDICES)) != 1:
        return None
    return along(GatherInput.AXIS)(op, order)


def moved_images(op: OperationContext, order: Order, position: int) -> Array:
    """Return a vector with an element for each axis in another order."""
    return _vector(list(permuted(op.integers(position), order)))


def _reduced(order: Order, axes: tuple[int, ...], keep: bool, position: int) -> Rewritten:
    moved = sorted(order.index(axis) for axis in axes)
    return Rewritten((order if keep else without(order, axes),), {position: _vector(moved)})


def _scalar(value: int) -> Array:
    return np.array(value, np.int32)


def _vector(values: list[int]) -> Array:
    return np.array(values, np.int32)
