"""Storing tensors as TFLite's sparse constants, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from tests.support.tflite_files import Level, Sparsity


def sparse(
    dense: Array,
    order: Sequence[int],
    compressed: Sequence[bool],
    blocks: dict[int, int] | None = None,
    index_type: type = np.int32,
) -> tuple[Sparsity, Array]:
    """Return how a tensor is stored, and the values that are.

    ``order`` has the axis of each level, ``compressed`` whether it is sparse, ``blocks`` the length of blocks by axis.
    """
    blocks = blocks or {}
    cut = list(blocks)
    rank = dense.ndim
    sizes = [dense.shape[a] // blocks.get(a, 1) if a < rank else blocks[cut[a - rank]] for a in order]

    def part(prefix: tuple[int, ...]) -> Array:
        """The elements below some indexes of the outermost levels."""
        found = dense
        place = dict(zip(order, prefix, strict=False))
        for axis in range(rank):
            block = blocks.get(axis, 1)
            inner = place.get(rank + cut.index(axis)) if axis in cut else 0
            outer = place.get(axis)
            outers = range(dense.shape[axis] // block) if outer is None else [outer]
            inners = range(block) if inner is None else [inner]
            found = np.take(found, [o * block + i for o in outers for i in inners], axis)
        return found

    prefixes: list[tuple[int, ...]] = [()]
    levels = []
    for size, is_sparse in zip(sizes, compressed, strict=True):
        if not is_sparse:
            levels.append(Level(size))
            prefixes = [(*prefix, i) for prefix in prefixes for i in range(size)]
            continue
        present = [[i for i in range(size) if part((*prefix, i)).any()] for prefix in prefixes]
        ends: Array = np.cumsum([0, *map(len, present)]).astype(index_type)
        levels.append(Level(0, ends, np.array([i for row in present for i in row], index_type)))
        prefixes = [(*prefix, i) for prefix, row in zip(prefixes, present, strict=True) for i in row]
    return Sparsity(order, cut, levels), np.array([part(prefix).item() for prefix in prefixes], dense.dtype)
