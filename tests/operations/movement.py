"""Operations that move elements: they are permuted, repeated, padded, and exchanged between space, depth and batch."""

from __future__ import annotations

import numpy as np

from nnhal.operations.operand_types import I32
from tests.operations.rows import (
    LAST,
    absent,
    f16,
    f32,
    gives,
    half,
    i32,
    q8a,
    q8as,
    real,
    refuses,
    table,
    takes,
)

_VALUES = np.arange(24).reshape(2, 3, 4)
_IMAGES = f32[2, 4, 6, 8]
_CHANNELS = np.arange(2 * 4 * 6 * 6).reshape(2, 4, 6, 6)
_REFLECT, _SYMMETRIC = 0, 1
_SPACED = _CHANNELS.reshape(2, 2, 2, 2, 3, 6).transpose(2, 4, 0, 1, 3, 5).reshape(12, 2, 2, 6)
"""``_CHANNELS`` in blocks of 2 x 3, as batches."""
_DEEP = _CHANNELS.reshape(2, 2, 2, 3, 2, 6).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 24)
"""``_CHANNELS`` in blocks of 2 x 2, as channels."""

PERMUTED = table(
    *(
        takes(
            "TRANSPOSE",
            [f32[2, 3, 4, 5], order],
            f32[tuple((2, 3, 4, 5)[axis] for axis in order)],
            f32=2,
            f16=3,
            q8a=2,
            q8as=4,
            opens=True,
        )
        for order in ([0, 3, 1, 2], [0, 2, 3, 1], [3, 1, 0, 2])
    ),
    takes("TRANSPOSE", [f32[2, 0, 4], absent(I32)], f32[4, 0, 2], level=2),
    *(
        refuses("TRANSPOSE", [f32[2, 3, 4], order], f32[()], "permutation")
        for order in ([0, 1], [0, 1, 1], [1, 2, 3], [-1, 0, 1])
    ),
    refuses("TRANSPOSE", [q8a.at(0.5)[2, 3], [1, 0]], q8a.at(0.25)[3, 2], r"scale 0.25"),
    gives("TRANSPOSE", [f32(_VALUES), [1, 2, 0]], f32(_VALUES.transpose(1, 2, 0))),
    gives("TRANSPOSE", [f32(_VALUES), absent(I32)], f32(_VALUES.T)),
    takes("REVERSE", [f32[3, 4, 5], [1]], f32[3, 4, 5], f32=7, f16=7, i32=7, q8a=7, q8as=7, opens=True),
    takes("REVERSE", [f32[(1, 2) * 4], [7]], f32[(1, 2) * 4], level=7),
    refuses("REVERSE", [f32[(1,) * 9], [0]], f32[()], "rank 9"),
    *(refuses("REVERSE", [f32[2, 3], axes], f32[()], "expected one axis, 0 to 1") for axes in ([-1], [2], [0, 1])),
    refuses("REVERSE", [q8a.at(0.5)[2, 3], [0]], q8a.at(0.25)[2, 3], "expected equal ones"),
    refuses("REVERSE", [q8a.at(0.5)[2, 3], [0]], q8a.at(0.5)[3, 2], r"\[2, 3\] and \[3, 2\]"),
    gives("REVERSE", [i32([[1, 2], [3, 4]]), [1]], i32([[2, 1], [4, 3]])),
    takes("TILE", [f32[2, 3], [2, 3]], f32[4, 9], f32=3, f16=3, i32=3, q8a=3, q8as=4, opens=True),
    takes("TILE", [f32[2, 0, 3], [3, 2, 0]], f32[6, 0, 0], level=3),
    *(refuses("TILE", [f32[2, 3], multiples], f32[()], "expected") for multiples in ([1], [1, -1])),
    gives("TILE", [i32([[1, 2]]), [2, 2]], i32([[1, 2, 1, 2], [1, 2, 1, 2]])),
    gives("TILE", [i32([[1, 2]]), [3, 0]], i32(np.zeros((3, 0)))),
    takes("CHANNEL_SHUFFLE", [_IMAGES, 4, -1], _IMAGES, f32=3, f16=3, q8a=3, q8as=4, opens=True),
    takes("CHANNEL_SHUFFLE", [f32[3, 6], 3, 1], f32[3, 6], f32=3, f16=3, q8a=3, q8as=4, opens=True),
    takes("CHANNEL_SHUFFLE", [f32[0, 6], 3, -1], f32[0, 6], level=3),
    *(
        refuses("CHANNEL_SHUFFLE", [f32[2, 6], n, 1], f32[()], f"got {n} groups, expected a divisor of the 6 elements")
        for n in (0, 4)
    ),
    *(
        gives(
            "CHANNEL_SHUFFLE", [q8as.at(0.5, 1)([[0, 1, 2, 3, 4, 5]]), 3, axis], q8as.at(0.5, 1)([[0, 2, 4, 1, 3, 5]])
        )
        for axis in (1, -1)
    ),
)

_BORDERS = [[0, 1], [3, 0], [1, 2], [0, 0]]

PADDED = table(
    takes("PAD", [_IMAGES, _BORDERS], f32[3, 7, 9, 8], f32=2, f16=3, q8a=3, q8as=4, opens=True),
    takes("PAD", [f32[4, 0], [[1, 2], [0, 3]]], f32[7, 0], level=2),
    takes("PAD", [q8a.at(0.5)[4, 4], [[1, 2], [0, 3]]], q8a.at(0.5)[7, 7], level=2),
    takes("PAD", [q8a.at(0.5, 7)[4, 4], [[1, 2], [0, 3]]], q8a.at(0.5, 7)[7, 7], level=3),
    *(
        refuses("PAD", [f32[4, 4], paddings], f32[()], "paddings")
        for paddings in ([[1, 2]], [[1, 2], [0, -1]], [[1, 2, 3], [1, 2, 3]])
    ),
    # The border is the logical zero, or the given value.
    *(
        gives("PAD", [kind([5, 6]), [[1, 2]]], kind([border, 5, 6, border, border]))
        for kind, border in ((f32, 0), (f16, 0), (q8a.at(0.5, 9), 9), (q8as.at(0.5, -9), -9))
    ),
    *(
        gives("PAD_V2", [kind([5, 6]), [[1, 2]], value], kind([border, 5, 6, border, border]))
        for kind, value, border in ((f32, real(-7.5), -7.5), (f16, half(-7.5), -7.5), (q8a.at(0.5), 200, 200))
    ),
    *(
        takes("PAD_V2", [kind[2, 3], [[1, 0], [0, 2]], value], kind[3, 5], level=level)
        for kind, value, level in ((f32, 1.5, 3), (f16, half(-2), 3), (q8a, 200, 3), (q8as, -100, 4))
    ),
    refuses("PAD_V2", [f16[4, 4], [[1, 2], [0, 3]], 1.0], f16[7, 7], "FLOAT32, expected FLOAT16"),
    refuses("PAD_V2", [q8a[4, 4], [[1, 2], [0, 3]], 256], q8a[7, 7], "value is 256, expected 0 to 255"),
    takes("MIRROR_PAD", [_IMAGES, _BORDERS, _REFLECT], f32[3, 7, 9, 8], f32=7, f16=7, i32=7, q8a=7, q8as=7, opens=True),
    takes("MIRROR_PAD", [f32[4, 3], [[3, 0], [0, 2]], _REFLECT], f32[7, 5], level=7),
    takes("MIRROR_PAD", [f32[4, 3], [[4, 4], [0, 3]], _SYMMETRIC], f32[12, 6], level=7, declined="f32"),
    takes("MIRROR_PAD", [f32[0, 3], [[1, 1], [2, 0]], _REFLECT], f32[0, 5], level=7),
    *(
        refuses("MIRROR_PAD", [f32[4, 3], paddings, mode], f32[()], words)
        for paddings, mode, words in (
            ([[0, 0], [0, 3]], _REFLECT, r"\(0, 3\) on axis 1, expected 0 to 2"),
            ([[0, -1], [0, 0]], _SYMMETRIC, "on axis 0"),
            ([[0, 0]], _SYMMETRIC, "paddings have dimensions"),
            ([[0, 0], [0, 0]], 2, "mode 2"),
        )
    ),
    refuses("MIRROR_PAD", [q8a.at(0.5)[4], [[1, 1]], _REFLECT], q8a.at(0.5)[6, 1], "rank 2, expected 1"),
    refuses("MIRROR_PAD", [q8a.at(0.5)[4], [[1, 1]], _REFLECT], q8a.at(0.25)[6], "expected equal ones"),
    gives("MIRROR_PAD", [f32([1, 2, 3]), [[2, 1]], _REFLECT], f32([3, 2, 1, 2, 3, 2])),
    gives("MIRROR_PAD", [f32([1, 2, 3]), [[2, 1]], _SYMMETRIC], f32([2, 1, 1, 2, 3, 3])),
    *(
        gives("MIRROR_PAD", [f32(np.zeros((0, 3))), [[0, 0], [1, 2]], mode], f32(np.zeros((0, 6))))
        for mode in (_REFLECT, _SYMMETRIC)
    ),
)

_BLOCK, _UNPADDED = [2, 3], [[0, 0], [0, 0]]

SPACE = table(
    takes("BATCH_TO_SPACE_ND", [f32[12, 3, 2, 5], _BLOCK], f32[2, 6, 6, 5], f32=2, f16=3, q8a=2, q8as=4, opens=True),
    takes(
        "BATCH_TO_SPACE_ND", [f32[4, 2, 5, 3], [2, 2], LAST], f32[1, 4, 10, 3], f32=3, f16=3, q8a=3, q8as=4, opens=True
    ),
    takes("BATCH_TO_SPACE_ND", [f32[12, 1, 0, 5], _BLOCK], f32[2, 2, 0, 5], level=2),
    takes(
        "SPACE_TO_BATCH_ND",
        [_IMAGES, _BLOCK, [[1, 1], [0, 3]]],
        f32[12, 3, 3, 8],
        f32=2,
        f16=3,
        q8a=3,
        q8as=4,
        opens=True,
    ),
    takes(
        "SPACE_TO_BATCH_ND",
        [f32[2, 4, 6, 3], _BLOCK, _UNPADDED, LAST],
        f32[12, 2, 2, 3],
        f32=3,
        f16=3,
        q8a=3,
        q8as=4,
        opens=True,
    ),
    takes("SPACE_TO_BATCH_ND", [f32[0, 3, 3, 5], _BLOCK, [[1, 0], [2, 1]]], f32[0, 2, 2, 5], level=2),
    takes("SPACE_TO_BATCH_ND", [f32[1, 3, 0, 5], _BLOCK, [[1, 0], [2, 1]], LAST], f32[6, 2, 0, 5], level=3),
    takes("SPACE_TO_BATCH_ND", [q8a[1, 3, 3, 5], _BLOCK, [[1, 0], [2, 1]]], q8a[6, 2, 2, 5], level=3),
    *(
        refuses("BATCH_TO_SPACE_ND", [f32[4, 3, 3, 5], block], f32[()], words)
        for block, words in (([2, 3], "the batch is 4"), ([2, 0], "block sizes"), ([2], "block sizes"))
    ),
    *(
        refuses("SPACE_TO_BATCH_ND", [f32[4, 3, 3, 5], _BLOCK, paddings], f32[()], words)
        for paddings, words in ((_UNPADDED, "padded images of 3 x 3"), ([[1, 0], [0, -3]], "two pairs"))
    ),
    # The place within the block comes before the image.
    gives(
        "SPACE_TO_BATCH_ND",
        [f32(np.arange(12).reshape(2, 2, 3, 1)), _BLOCK, _UNPADDED],
        f32(np.reshape([0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11], (12, 1, 1, 1))),
    ),
    gives("SPACE_TO_BATCH_ND", [f32(_CHANNELS), _BLOCK, _UNPADDED, LAST], f32(_SPACED)),
    gives("BATCH_TO_SPACE_ND", [f32(_SPACED), _BLOCK, LAST], f32(_CHANNELS)),
    gives(
        "SPACE_TO_BATCH_ND",
        [q8a.at(0.5, 9)([[[[1], [2]]]]), _BLOCK, [[1, 0], [0, 1]]],
        q8a.at(0.5, 9)(np.reshape([9, 9, 9, 1, 2, 9], (6, 1, 1, 1))),
    ),
    takes("DEPTH_TO_SPACE", [_IMAGES, 2], f32[2, 8, 12, 2], f32=1, f16=3, q8a=1, q8as=4, opens=True),
    takes("DEPTH_TO_SPACE", [f32[2, 3, 5, 8], 2, LAST], f32[2, 6, 10, 2], f32=3, f16=3, q8a=3, q8as=4, opens=True),
    takes("DEPTH_TO_SPACE", [f32[0, 2, 3, 8], 2, LAST], f32[0, 4, 6, 2], level=3),
    takes("SPACE_TO_DEPTH", [_IMAGES, 2], f32[2, 2, 3, 32], f32=1, f16=3, q8a=1, q8as=4, opens=True),
    takes("SPACE_TO_DEPTH", [f32[2, 4, 6, 3], 2, LAST], f32[2, 2, 3, 12], f32=3, f16=3, q8a=3, q8as=4, opens=True),
    takes("SPACE_TO_DEPTH", [f32[1, 4, 0, 2], 2, LAST], f32[1, 2, 0, 8], level=3),
    *(
        refuses("DEPTH_TO_SPACE SPACE_TO_DEPTH", [f32[1, 4, 4, 8], block], f32[()], f"block size {block}|multiple")
        for block in (0, 3)
    ),
    refuses("DEPTH_TO_SPACE", [q8a.at(0.5)[1, 4, 4, 8], 2], q8a.at(0.25)[1, 8, 8, 2], "scale 0.25"),
    # Channels become a block row by row.
    gives(
        "DEPTH_TO_SPACE",
        [f32([[[[1, 10, 2, 20, 3, 30, 4, 40]]]]), 2],
        f32([[[[1, 10], [2, 20]], [[3, 30], [4, 40]]]]),
    ),
    gives("SPACE_TO_DEPTH", [f32(_CHANNELS), 2, LAST], f32(_DEEP)),
    gives("DEPTH_TO_SPACE", [f32(_DEEP), 2, LAST], f32(_CHANNELS)),
    gives("DEPTH_TO_SPACE", [f32(np.zeros((0, 1, 2, 4))), 2], f32(np.zeros((0, 2, 4, 1)))),
)

ROWS = [*PERMUTED, *PADDED, *SPACE]
