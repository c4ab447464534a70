"""Behaviour of an operation whose tensors lie in another order in memory: what its definition says of it.

A rewriting takes an operation and the order of its tensors, and returns the orders of its outputs with the values of
the parameters that change, by position. It returns None if the operation cannot follow that order, and raises
UnknownYet if a parameter is no constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.context import OperationContext
from nnhal.operations.windows import Forms
from nnhal.types.orders import Order, without


class Rewritten(NamedTuple):
    """An operation in another order. A parameter behind the last input is one that was left out."""

    stores: tuple[Order | None, ...]
    parameters: Mapping[int, Array]


Rewrite: TypeAlias = Callable[[OperationContext, Order], Rewritten | None]


@dataclass(frozen=True)
class FollowsOrder:
    """An operation that can compute in any order of axes."""

    rewrite: Rewrite
    tensors: int = 1
    """The number of tensors that have the order; they come first. If negative, that of the inputs behind them."""


@dataclass(frozen=True)
class OnImages:
    """An operation on images with an input that says whether channels come first."""

    layout: IntEnum | Forms
    """The position of that input, or the forms that have it."""
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class PermutesAxes:
    """An operation that only gives a tensor its axes in another order."""

    permutation: Callable[[OperationContext], Order]


@dataclass(frozen=True)
class ReadsFlat:
    """An operation to which input 0 is a sequence of elements."""


LayoutRule: TypeAlias = FollowsOrder | OnImages | PermutesAxes | ReadsFlat


def element_wise(tensors: int = 1) -> FollowsOrder:
    """Return the rule of an operation on each element of its first ``tensors`` inputs."""
    return FollowsOrder(lambda op, order: Rewritten((order,) * len(op.outputs), {}), tensors)


def along(position: int | None, default: int | None = None, tensors: int = 1) -> FollowsOrder:
    """Return the rule of an operation along one axis, an INT32 at ``position``; None for the last input."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten:
        index = len(op.inputs) - 1 if position is None else position
        axis = op.integer(index, default) % len(order)
        return Rewritten((order,) * len(op.outputs), {index: int32(order.index(axis))})

    return FollowsOrder(rewrite, tensors)


def extremum_along(position: int) -> FollowsOrder:
    """Return the rule of an operation that removes the axis that it works along."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten:
        axis = op.integer(position) % len(order)
        return Rewritten((without(order, {axis}),), {position: int32(order.index(axis))})

    return FollowsOrder(rewrite)


def per_axis(*positions: int) -> FollowsOrder:
    """Return the rule of an operation whose parameters have an element or a row for each axis."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten | None:
        values = {position: op.value(position) for position in positions}
        if any(len(value) != len(order) for value in values.values()):
            return None
        return Rewritten((order,), {position: value[list(order)] for position, value in values.items()})

    return FollowsOrder(rewrite)


def over_axes(
    axes_of: Callable[[OperationContext], Collection[int]], position: int, keeps: Callable[[OperationContext], bool]
) -> FollowsOrder:
    """Return the rule of an operation over the axes at ``position``, which may keep them with length 1."""

    def rewrite(op: OperationContext, order: Order) -> Rewritten:
        axes = axes_of(op)
        moved = int32(sorted(order.index(axis) for axis in axes))
        return Rewritten((order if keeps(op) else without(order, axes),), {position: moved})

    return FollowsOrder(rewrite)


def int32(value: int | list[int]) -> Array:
    """Return a parameter: a scalar, or a vector of one element for each axis."""
    return np.array(value, np.int32)
