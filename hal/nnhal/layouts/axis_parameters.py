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
from nnhal.operations import OperationContext, gather, mean, reduce, slicing, squeeze, strided_slice


class Rewritten(NamedTuple):
    """An operation in another order. A parameter behind the last input is one that was left out."""

    stores: tuple[Order | None, ...]
    parameters: Mapping[int, Array]


Rewrite: TypeAlias = Callable[[OperationContext, Order], Rewritten | None]

INPUT = 0
"""The position of the tensor in operations that have one."""


def element_wise(op: OperationContext, order: Order) -> Rewritten:
    """Change nothing."""
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
    """Rewrite MEAN."""
    axes = mean.axes_of(op)
    return _reduced(order, axes, op.integer(mean.Input.KEEP) > 0, mean.Input.AXES)


def reduce_over_axes(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite REDUCE_SUM and its like."""
    axes = reduce.axes_of(op)
    return _reduced(order, axes, op.boolean(reduce.Input.KEEP_DIMS), reduce.Input.AXES)


def reversed_axis(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite REVERSE, whose only axis is a vector."""
    return Rewritten((order,), {1: _vector([order.index(axis % len(order)) for axis in op.integers(1)])})


def squeezed(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite SQUEEZE."""
    if not op.has(squeeze.Input.AXES):
        lengths = op.known_dimensions(squeeze.Input.INPUT)
        return Rewritten((without(order, [axis for axis, length in enumerate(lengths) if length == 1]),), {})
    axes = sorted({axis % len(order) for axis in op.integers(squeeze.Input.AXES)})
    return _reduced(order, tuple(axes), False, squeeze.Input.AXES)


def sliced(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite SLICE."""
    return per_axis(slicing.Input.BEGIN, slicing.Input.SIZE)(op, order)


def sliced_in_strides(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite STRIDED_SLICE, whose masks have a bit for each axis."""
    names = strided_slice.Input
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
    """Rewrite GATHER with a vector of indices, which leaves the rank as it is."""
    if len(op.ranked(gather.Input.INDICES)) != 1:
        return None
    return along(gather.Input.AXIS)(op, order)


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
