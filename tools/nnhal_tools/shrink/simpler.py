"""Simpler forms of a case: fewer operations, shorter tensors, plainer values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np

from nnhal.arrays import Array
from nnhal.types import ChannelQuant, OperationType
from nnhal.types.layout import is_scalar
from nnhal_tools.shrink.case import Case

_MOST_TOGETHER = 3
"""Axes of one length that are shortened together, if not all are."""
_MOST_GROUPS = 500
"""Groups of one size: an operation of thirty operands would have thousands of threes."""
_BLOCKS = (1, 2, 4, 8)
_PLAIN_SCALARS = (0, 1)
_DECIMALS = (0, 2)


def without_control_flow(case: Case) -> Iterator[Case]:
    """Put the operations of a subgraph in the place of an operation that runs it: a branch, or one turn of a loop."""
    for operation in case.operations:
        if operation.type == OperationType.IF:
            _, *branches = operation.inputs[:3]
            for branch in branches:
                inner = case.inlined(operation, _index(case, branch), operation.inputs[3:], operation.outputs)
                yield inner.ending_at(inner.outputs)
        elif operation.type == OperationType.WHILE:
            condition, body, *given = operation.inputs
            inner = case.inlined(operation, _index(case, body), given, operation.outputs)
            yield inner.ending_at(inner.outputs)
            tested = case.inlined(operation, _index(case, condition), given, ())
            place = next(place for place, other in enumerate(case.operations) if other is operation)
            turns = len(case.branches[_index(case, condition)].graph.operations)
            if turns:
                yield tested.ending_at(tested.operations[place + turns - 1].outputs)


def _index(case: Case, operand: int) -> int:
    """Return the index of the subgraph that an operand refers to."""
    return case.operands[operand].location.offset


def with_fewer_operations(case: Case, inner_values: Callable[[Case], Mapping[int, Array]]) -> Iterator[Case]:
    """Leave out operations at the end, then at the beginning. ``inner_values`` returns what the operations compute.

    The values that it does not return stay inside.
    """
    if len(case.operations) < 2:
        return
    for operand in case.computed:
        if (operand,) != case.outputs:
            yield case.ending_at([operand])
    inner = inner_values(case)
    for operation in reversed(case.operations[:-1]):
        results = {operand: inner[operand] for operand in operation.outputs if operand in inner}
        whole = len(results) == len(operation.outputs) and all(array.size for array in results.values())
        if whole and not set(operation.outputs) & set(case.outputs):
            yield case.beginning_after(operation, results)


def with_shorter_tensors(case: Case) -> Iterator[Case]:
    """Shorten axes of inputs and constants, alone and together with others of the same length."""
    axes: dict[int, list[tuple[int, int]]] = {}
    for operand, array in case.values.items():
        if not is_scalar(case.operands[operand].type):
            for axis, length in enumerate(array.shape):
                axes.setdefault(length, []).append((operand, axis))
    for length in sorted(axes, reverse=True):
        places = axes[length]
        sizes = [n for n in range(1, _MOST_TOGETHER + 1) if comb(len(places), n) <= _MOST_GROUPS]
        groups = [places, *(group for n in sizes for group in combinations(places, n))]
        for shorter in dict.fromkeys((1, length // 2, length - 1)):
            if 0 < shorter < length:
                for group in dict.fromkeys(map(tuple, groups)):
                    for start in (0, length - shorter):
                        yield _shortened(case, group, slice(start, start + shorter))


def with_plainer_values(case: Case) -> Iterator[Case]:
    """Make zeros or ones of values, all or a part of them, and round floats."""
    for operand, array in case.values.items():
        described = case.operands[operand]
        if is_scalar(described.type):
            yield from (
                case.with_values({operand: np.array(plain, array.dtype).reshape(array.shape)})
                for plain in _PLAIN_SCALARS
                if abs(float(array.item())) > plain
            )
            continue
        flat = array.reshape(-1)
        others = np.flatnonzero(flat != described.zero_point)
        for blocks in _BLOCKS:
            if blocks <= others.size:
                for block in np.array_split(others, blocks):
                    changed = flat.copy()
                    changed[block] = described.zero_point
                    yield case.with_values({operand: changed.reshape(array.shape)})
        if array.dtype.kind == "i" and not (described.scale or described.extra_params) and np.abs(array).max() > 1:
            yield case.with_values({operand: np.clip(array, -1, 1)})
        if array.dtype.kind == "f":
            for plain in (np.sign(array), *(np.round(array, decimals) for decimals in _DECIMALS)):
                if not np.array_equal(plain, array, equal_nan=True):
                    yield case.with_values({operand: plain})


def _shortened(case: Case, places: tuple[tuple[int, int], ...], kept: slice) -> Case:
    changed: dict[int, Array] = {}
    operands = list(case.operands)
    for operand, axis in places:
        array = changed.get(operand, case.values[operand])
        changed[operand] = np.ascontiguousarray(array[(slice(None),) * axis + (kept,)])
        params = operands[operand].extra_params
        if isinstance(params, ChannelQuant) and params.channel_dim == axis:
            operands[operand] = replace(operands[operand], extra_params=replace(params, scales=params.scales[kept]))
    return replace(case, operands=tuple(operands)).with_values(changed)
