"""Sparse constants: a file stores only some of their elements.

The axes of a sparse tensor are stored as levels, the outermost first. A level has either all indexes along its axis, or
for each element of the level before it a segment of the indexes that are present (compressed sparse rows). An axis may
be cut into blocks: then there is a level for the blocks and one, further in, for the places within a block. The stored
values are the elements of the innermost level; all others are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from tflite import DimensionType

from nnhal.arrays import Array
from nnhal.types.layout import Dimensions, describe
from nnhal_frontends.errors import InvalidModel


@dataclass(frozen=True, slots=True)
class SparseLevel:
    format: int
    """A DimensionType."""
    size: int
    """The number of indexes of a dense level."""
    segments: Array
    """Of a sparse level: where the segment of each element begins in ``indexes``, and where the last one ends."""
    indexes: Array
    """Of a sparse level: the indexes that are present."""


@dataclass(frozen=True, slots=True)
class TfliteSparsity:
    """Storage of the values of a sparse constant."""

    order: tuple[int, ...]
    """The axis of each level: one of the tensor, or rank + n for the places in blocks along axis ``block_map[n]``."""
    block_map: tuple[int, ...]
    levels: tuple[SparseLevel, ...]


def densified(name: str, sparsity: TfliteSparsity, shape: Dimensions, values: Array, spare: int = 0) -> Array:
    """Return the tensor of a shape whose stored elements are ``values``; the last ``spare`` of these may be padding.

    Raises InvalidModel if they contradict one another.
    """
    try:
        return _densified(sparsity, shape, values, spare)
    except ValueError as error:
        raise InvalidModel(f"the sparse tensor '{name}' of {describe(shape)} {error}") from error


def _densified(sparsity: TfliteSparsity, shape: Dimensions, values: Array, spare: int) -> Array:
    weights, sizes = _strides(sparsity, shape)
    places: Array = np.zeros(1, np.int64)
    for number, (level, weight, size) in enumerate(zip(sparsity.levels, weights, sizes, strict=True)):
        if level.format == DimensionType.DENSE:
            # Each element becomes a stored value or has a segment further in, and both of them take bytes of the file.
            stored = [level.segments.size for level in sparsity.levels[number + 1 :]]
            if places.size * size > max(values.size, *stored, 1):
                raise ValueError(f"has {values.size} values and {places.size * size} elements at level {number}")
            places = (places[:, None] + weight * np.arange(size)).reshape(-1)
        else:
            places = _present(level, number, places, weight, size)
    if not 0 <= values.size - places.size <= spare:
        raise ValueError(f"has {values.size} values, expected one for each of {places.size} elements")
    dense = np.zeros(prod(shape), values.dtype)
    dense[places] = values[: places.size]
    return dense.reshape(shape)


def _present(level: SparseLevel, number: int, places: Array, weight: int, size: int) -> Array:
    """Return the elements of a sparse level, given those of the level before it."""
    segments, indexes = level.segments.astype(np.int64), level.indexes.astype(np.int64)
    if segments.size != places.size + 1:
        raise ValueError(f"has {segments.size} ends of segments at level {number}, expected {places.size + 1}")
    lengths = np.diff(segments)
    if segments[0] != 0 or lengths.min(initial=0) < 0 or segments[-1] != indexes.size:
        raise ValueError(f"has segments at level {number} that do not follow one another to the end of its indexes")
    if indexes.size and not 0 <= indexes.min() <= indexes.max() < size:
        got = f"indexes from {indexes.min()} to {indexes.max()} at level {number}"
        raise ValueError(f"has {got}, expected 0 to {size - 1}")
    return np.repeat(places, lengths) + weight * indexes


def _strides(sparsity: TfliteSparsity, shape: Dimensions) -> tuple[list[int], list[int]]:
    """Return for each level how many elements apart its indexes are in the dense tensor, and how many it may have."""
    rank, blocks = len(shape), _blocks(sparsity, shape)
    strides = [prod(shape[axis + 1 :]) for axis in range(rank)]
    weights, sizes = [], []
    for axis, level in zip(sparsity.order, sparsity.levels, strict=True):
        if axis < rank:
            weights.append(strides[axis] * blocks.get(axis, 1))
            sizes.append(shape[axis] // blocks.get(axis, 1))
        else:
            cut = sparsity.block_map[axis - rank]
            weights.append(strides[cut])
            sizes.append(blocks[cut])
        if level.format == DimensionType.DENSE and level.size != sizes[-1]:
            raise ValueError(f"has {level.size} indexes along axis {axis} of its levels, expected {sizes[-1]}")
    return weights, sizes


def _blocks(sparsity: TfliteSparsity, shape: Dimensions) -> dict[int, int]:
    """Return the length of a block by the axis that is cut into blocks. Raises ValueError if levels and axes differ."""
    rank, cut = len(shape), sparsity.block_map
    if sorted(sparsity.order) != list(range(rank + len(cut))) or len(sparsity.levels) != len(sparsity.order):
        raise ValueError(
            f"has {len(sparsity.levels)} levels for the axes {_listed(sparsity.order)}, "
            f"expected each of 0 to {rank + len(cut) - 1} once"
        )
    if len(set(cut)) != len(cut) or not all(0 <= axis < rank for axis in cut):
        raise ValueError(f"has blocks along the axes {_listed(cut)}, expected different ones of 0 to {rank - 1}")
    blocks = {}
    for axis, level in zip(sparsity.order, sparsity.levels, strict=True):
        if axis >= rank:
            along = cut[axis - rank]
            if level.format != DimensionType.DENSE or level.size < 1 or shape[along] % level.size:
                raise ValueError(f"has blocks of {level.size} along axis {along}, expected ones that fill it")
            blocks[along] = level.size
    return blocks


def _listed(numbers: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, ..." if len(numbers) > most else shown
