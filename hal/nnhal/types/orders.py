"""Orders of axes: in which order a value lies in memory, seen from the axes that its model gives it.

Axis *i* in memory is axis ``order[i]`` of the model. None is the model's own order, for any rank.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias, TypeVar

Order: TypeAlias = tuple[int, ...]
Element = TypeVar("Element")

TO_LAST: Order = (0, 2, 3, 1)
"""How images that are NCHW in the model lie in memory as NHWC."""
TO_FIRST: Order = (0, 3, 1, 2)
"""How images that are NHWC in the model lie in memory as NCHW."""


def normal(order: Order) -> Order | None:
    """Return None for an order that moves nothing."""
    return None if order == tuple(range(len(order))) else order


def axes_between(stored: Order | None, wanted: Order | None) -> Order | None:
    """Return the axes of a transposition from one order to another, None if there is nothing to do."""
    given = wanted or stored
    if given is None:
        return None
    source = tuple(range(len(given)))
    return normal(tuple((stored or source).index(axis) for axis in wanted or source))


def after_transposition(stored: Order | None, axes: Order) -> Order | None:
    """Return the order of a transposition's result that lies in memory as its input does."""
    return normal(tuple(axes.index(axis) for axis in stored or range(len(axes))))


def without(order: Order, removed: Collection[int]) -> Order | None:
    """Return the order of what is left of a value without some axes of the model."""
    left = [axis for axis in order if axis not in removed]
    return normal(tuple(sorted(left).index(axis) for axis in left))


def widened(order: Order | None, rank: int, to: int) -> Order:
    """Return the order of a value that gets axes of length 1 in front, until it has the rank ``to``."""
    added = to - rank
    return (*range(added), *(axis + added for axis in order or range(rank)))


def permuted(elements: Sequence[Element], order: Sequence[int] | None) -> tuple[Element, ...]:
    """Return elements, one for each axis of the model, in the order of memory."""
    return tuple(elements) if not order else tuple(elements[axis] for axis in order)


def moves_elements(order: Order | None, shape: Sequence[int]) -> bool:
    """Return whether elements lie in another sequence in memory than in the model's order.

    They do not if only axes of length 1 move. ``shape`` is in the model's order; 0 is an unknown length.
    """
    if order is None:
        return False
    long = [axis for axis in order if shape[axis] != 1]
    return long != sorted(long)
