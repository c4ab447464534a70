"""Operations that pick slices by their numbers or keys, and projections to numbers."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels.fingerprint import fingerprint
from nnhal.operations.operand_types import F16
from tests.operations.rows import absent, f16, f32, gives, i32, q8a, q8as, refuses, table, takes

_CUBE = [[1, 2, 3], [4, 5, 6]]
_BLOCK = np.arange(-32, 32).reshape(4, 4, 4)
_PLACES = {shape: np.arange(np.prod(shape)).reshape(shape) % 4 for shape in ((3,), (2, 3), (1, 1, 2))}
_HITS = q8a.at(1)

PICKED = table(
    takes(
        "GATHER", [f32[3, 4, 5], 1, [[3, 0], [1, 1]]], f32[3, 2, 2, 5], f32=3, f16=3, i32=3, q8a=3, q8as=4, opens=True
    ),
    takes("GATHER", [f32[2, 0, 4], -2, i32[5, 6]], f32[2, 5, 6, 4], level=3),
    refuses("GATHER", [f32[2, 3], 2, i32[5]], f32[()], "axis 2"),
    gives("GATHER", [f32(_CUBE), -1, i32([[2, 0], [1, 1]])], f32([[[3, 1], [2, 2]], [[6, 4], [5, 5]]])),
    *(
        gives("GATHER", [kind(_BLOCK), axis, i32(_PLACES[shape])], kind(np.take(_BLOCK, _PLACES[shape], axis)))
        for kind in (f32, i32, q8as)
        for axis in (0, 1, -1)
        for shape in _PLACES
    ),
    gives("GATHER", [f32(_CUBE), 0, i32(np.zeros((0, 2)))], f32(np.zeros((0, 2, 3)))),
    *(
        refuses("GATHER", [f32(_CUBE), 1, i32([0, n])], f32[()], rf"indices: index {n}, expected one in \[0, 3\)")
        for n in (-1, 3)
    ),
    takes("EMBEDDING_LOOKUP", [i32[5], f32[3, 0, 2]], f32[5, 0, 2], f32=1, f16=4, i32=3, q8a=3, q8as=4),
    refuses("EMBEDDING_LOOKUP", [i32[5], f32[3]], f32[5], "rank 1, expected at least 2"),
    refuses("EMBEDDING_LOOKUP", [i32[5], q8a.at(0.5)[3, 2]], q8a.at(0.25)[5, 2], r"scale 0.25"),
    gives(
        "EMBEDDING_LOOKUP",
        [i32([1, 0, 1]), q8as.at(0.5)([[1, 2], [-3, 4]])],
        q8as.at(0.5)([[-3, 4], [1, 2], [-3, 4]]),
    ),
    refuses(
        "EMBEDDING_LOOKUP",
        [i32([0, 2]), q8as.at(0.5)([[1, 2], [-3, 4]])],
        q8as.at(0.5)[()],
        "lookups: index 2, expected one in",
    ),
    takes("HASHTABLE_LOOKUP", [i32[4], i32[3], f32[0, 2]], [f32[4, 2], _HITS[4]], f32=1, i32=1, q8a=1),
    refuses(
        "HASHTABLE_LOOKUP",
        [i32[4], i32[3], f32[5, 2]],
        [f32[()], _HITS[4]],
        r"input 1 has dimensions \[3\], expected \[5\]",
    ),
    refuses("HASHTABLE_LOOKUP", [i32[4], i32[3], f32[3, 2]], [f32[()], q8a.at(0.5)[4]], r"output 1 has scale 0.5"),
    *(
        gives("HASHTABLE_LOOKUP", [i32(lookups), i32(keys), i32(values)], [i32(found), _HITS(hits)])
        for lookups, keys, values, found, hits in (
            ([7, -4, 5, 9], [-4, 0, 7], [[1, 2], [3, 4], [5, 6]], [[5, 6], [1, 2], [0, 0], [0, 0]], [1, 1, 0, 0]),
            ([5, 1, 6], [1, 7, 5], [1, 2, 3], [3, 1, 0], [1, 1, 0]),  # keys that do not ascend
            ([1, 2], np.zeros(0), np.zeros((0, 3)), np.zeros((2, 3)), [0, 0]),
        )
    ),
    # A miss is bytes of 0, whatever the zero point.
    gives("HASHTABLE_LOOKUP", [i32([1]), i32([0]), q8a.at(0.5, 128)([9])], [q8a.at(0.5, 128)([0]), _HITS([0])]),
)

_DEPRECATED, _DENSE, _SPARSE = 1, 2, 3
_SEEDS = np.array([[0.5, 1.5, -2.0], [3.25, -0.125, 8.0]], np.float32)
_ITEMS = np.array([[1, 2], [3, 4], [-5, 6], [7, 80]], np.int32)
_WEIGHTS = np.array([0.5, -2.0, 0.25, 1.0], np.float32)


def _bits(weights: Array) -> Array:
    result = np.zeros(_SEEDS.shape, np.int32)
    for place in np.ndindex(*_SEEDS.shape):
        keys = (np.frombuffer(_SEEDS[place].tobytes() + item.tobytes(), np.uint8) for item in _ITEMS)
        hashes = [int(fingerprint(key[None]).view(np.int64)[0]) for key in keys]
        result[place] = sum(float(w) * h for w, h in zip(weights, hashes, strict=True)) > 0
    return result


_NUMBERS = _bits(_WEIGHTS) @ [4, 2, 1]
"""The first bit is the highest."""

PROJECTED = table(
    *(
        takes("LSH_PROJECTION", [f32[4, 2], i32[3, 5], absent(f32.code), projection], i32[length], level=1)
        for projection, length in ((_DEPRECATED, 4), (_DENSE, 8), (_SPARSE, 4))
    ),
    takes("LSH_PROJECTION", [f32[4, 2], i32[3, 5], f32[3], _DENSE], i32[8], level=1),
    takes("LSH_PROJECTION", [f32[4, 2], f32[3, 5], None, _DENSE], i32[8], level=1),
    takes("LSH_PROJECTION", [f32[4, 2], q8a[3, 5], None, _DENSE], i32[8], level=1),
    takes("LSH_PROJECTION", [f32[4, 30], i32[3, 5], None, _SPARSE], i32[4], level=1),
    refuses("LSH_PROJECTION", [f32[5, 30], i32[3, 5], None, _SPARSE], i32[()], "5 rows of 30 bits"),
    refuses("LSH_PROJECTION", [f32[4, 2], i32[3, 5], None, 0], i32[()], "projection is 0"),
    refuses("LSH_PROJECTION", [f32[4, 2], i32[3, 5], f32[2], _DENSE], i32[()], r"dimensions \[2\], expected \[3\]"),
    refuses(
        "LSH_PROJECTION",
        [f32[4, 2], i32[3, 5], absent(F16), _DENSE],
        i32[8],
        "TENSOR_FLOAT16, expected TENSOR_FLOAT32",
    ),
    gives("LSH_PROJECTION", [f32(_SEEDS), i32(_ITEMS), None, _DENSE], i32(_bits(np.ones(4)).ravel())),
    *(
        gives("LSH_PROJECTION", [kind(_SEEDS), i32(_ITEMS), kind(_WEIGHTS), projection], i32(numbers))
        for kind in (f32, f16)
        for projection, numbers in (
            (_DENSE, _bits(_WEIGHTS).ravel()),
            (_DEPRECATED, _NUMBERS),
            (_SPARSE, _NUMBERS + np.array([0, 8])),
        )
    ),
)

ROWS = [*PICKED, *PROJECTED]
