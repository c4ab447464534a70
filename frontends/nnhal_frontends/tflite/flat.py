"""Tensors of more axes than the HAL's operations take, between operators that only move elements.

Exporters reshape to five axes, repeat or exchange some, and reshape again: so images grow and channels are shuffled.
Such tensors have operands of one axis, and the operators between them become operations on the axes that matter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from nnhal_frontends.tflite.graph import TfliteGraph

_MOST_AXES = 4
"""Of the inputs of the HAL's operations."""
_MOVING = frozenset({"RESHAPE", "TILE", "TRANSPOSE"})


def flat_tensors(graph: TfliteGraph, left: Collection[int]) -> frozenset[int]:
    """Return the tensors of a graph that need no axes of their own. ``left`` are operators that LiteRT runs."""
    found = {
        index
        for index, tensor in enumerate(graph.tensors)
        if len(tensor.shape) > _MOST_AXES and 0 not in tensor.shape and tensor.data is None
    }
    found.difference_update(graph.inputs, graph.outputs)
    if found:
        for number, operator in enumerate(graph.operators):
            if operator.op_type not in _MOVING or number in left:
                found.difference_update(operator.inputs, operator.outputs)
    return frozenset(found)


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return the elements before an axis, along it, and behind it."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def folded(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return a permutation of axes as one of as few axes as possible: those that stay neighbours are one axis."""
    kept = [axis for axis, length in enumerate(shape) if length > 1]
    groups: list[list[int]] = []
    for place in (kept.index(axis) for axis in order if shape[axis] > 1):
        if groups and groups[-1][-1] == place - 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    given = sorted(groups)
    return [prod(shape[kept[place]] for place in group) for group in given], [given.index(group) for group in groups]
