"""Operations that join tensors, and that take parts of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnhal.operations.joining import REST
from tests.operations.rows import f32, gives, i32, integer, q8a, q8as, refuses, table, takes

_FIRST = np.arange(6).reshape(2, 3)
_COUNTED = np.arange(24).reshape(2, 3, 4)
_SQUARE = np.arange(20.0).reshape(4, 5)

JOINED = table(
    takes("CONCATENATION", [f32[2, 3, 4], f32[2, 1, 4], f32[2, 5, 4], 1], f32[2, 9, 4], f32=1, f16=3, q8a=1, q8as=4),
    takes("CONCATENATION", [f32[2, 3], f32[2, 4], f32[2, 5], 1], f32[2, 12], level=1),
    # What one tensor leaves open another may know.
    takes("CONCATENATION", [f32[0, 3], f32[2, 4], 1], f32[2, 7], level=1),
    takes("CONCATENATION", [f32[2, 0], f32[2, 4], 1], f32[2, 0], level=1),
    takes("CONCATENATION", [f32[2], 0], f32[2], level=1),
    refuses("CONCATENATION", [0], f32[2], "at least 2"),
    *(
        refuses("CONCATENATION", [f32[2, 3], f32[second], axis], f32[()], "axis|equal|rank")
        for axis, second in ((1, (3, 4)), (2, (2, 3)), (-1, (2, 3)), (0, (2, 3, 1)))
    ),
    takes("CONCATENATION", [q8a.at(0.5)[2], q8a.at(0.5)[2], 0], q8a.at(0.5)[4], level=1),
    # Other quantisations than the output's.
    takes("CONCATENATION", [q8a.at(0.5)[2], q8a.at(0.25)[2], 0], q8a.at(0.5)[4], level=3),
    *(
        takes(
            "CONCATENATION",
            [*(kind.at(kind.scale * n, kind.zero_point + n)[2, 9] for n in (1, 2, 3)), 0],
            kind[6, 9],
            level=level,
        )
        for kind, level in ((q8a, 3), (q8as, 4))
    ),
    gives("CONCATENATION", [f32(np.zeros((0, 3))), f32(np.zeros((2, 3))), 0], f32(np.zeros((2, 3)))),
    gives("CONCATENATION", [f32([[1, 2]]), f32(np.zeros((1, 0))), f32([[3]]), 1], f32([[1, 2, 3]])),
    gives(
        "CONCATENATION",
        [q8a.at(0.5, 10)([0, 10, 255]), q8a.at(1, 7)([7, 250]), 0],
        q8a.at(1, 7)([2, 7, 129, 7, 250]),
    ),
    takes("PACK", [1, f32[2, 3], f32[2, 3], f32[2, 3]], f32[2, 3, 3], f32=6, f16=6, i32=6, q8a=6, q8as=6),
    *(
        takes("PACK", [axis, f32[3, 0], f32[0, 4]], f32[packed], level=6)
        for axis, packed in ((0, (2, 3, 4)), (1, (3, 2, 4)), (2, (3, 4, 2)))
    ),
    *(refuses("PACK", [axis, f32[3, 4]], f32[()], f"axis {axis}, expected 0 to 2") for axis in (-1, 3)),
    *(
        refuses("PACK", [0, q8a.at(0.5, 1)[3], other], q8a.at(0.5, 1)[2, 3], words)
        for other, words in (
            (q8a.at(0.5, 2)[3], "expected equal ones"),
            (q8a.at(0.5, 1)[3, 1], "input 2 has rank 2"),
            (f32[3], "TENSOR_FLOAT32, expected TENSOR_QUANT8_ASYMM"),
            (q8a.at(0.5, 1)[4], "expected equal dimensions"),
        )
    ),
    refuses("PACK", [0], q8a[2, 3], "got 1 inputs, expected 2"),
    *(
        gives("PACK", [axis, *(q8as.at(0.5, 1)(part) for part in parts)], q8as.at(0.5, 1)(np.stack(parts, axis)))
        for parts in ([_FIRST, -_FIRST],)
        for axis in (0, 1, 2)
    ),
)

PARTS = table(
    takes("SPLIT", [f32[2, 6, 3], 1, 3], [f32[2, 2, 3]] * 3, f32=3, f16=3, i32=3, q8a=3, q8as=4),
    takes("SPLIT", [f32[0, 6], -1, 3], [f32[0, 2]] * 3, level=3),
    # The number of outputs is compared only when the operation is prepared.
    refuses("SPLIT", [f32[2, 6], 1, 3], [f32[2, 2]] * 2, "3 splits and 2 outputs", level=3),
    refuses("SPLIT", [f32[5], 0, 2], [f32[2]] * 2, "axis 0 has 5 elements, expected a multiple of 2"),
    refuses("SPLIT", [q8a.at(0.5)[4], 0, 2], [q8a.at(0.5)[2], q8a.at(0.25)[2]], r"output 1 has scale 0.25"),
    refuses("SPLIT", [q8a.at(0.5)[4], 0, 2], [q8a.at(0.5)[2], integer[()]], "output 1 is INT32"),
    *(
        gives("SPLIT", [f32(values), -1, n], [f32(part) for part in np.split(values, n, axis=1)])
        for values, n in ((np.arange(12).reshape(2, 6), 3), (np.zeros((2, 0)), 2))
    ),
    takes(
        "SLICE", [f32[3, 4, 5], [1, 0, 2], [2, REST, 3]], f32[2, 4, 3], f32=3, f16=3, i32=3, q8a=3, q8as=4, opens=True
    ),
    takes("SLICE", [f32[4, 5], [1, 5], [2, REST]], f32[2, 0], level=3, declined="f32"),
    takes("SLICE", [f32[0, 5], [0, 1], [2, REST]], f32[2, 4], level=3),
    takes("SLICE", [f32[0, 5], [3, 1], [REST, REST]], f32[0, 4], level=3),
    *(
        refuses("SLICE", [f32[4, 5], [begin, 0], [size, 5]], f32[()], "on axis 0, expected a part of its 4 elements")
        for begin, size in ((-1, 2), (3, 2), (0, -2), (5, -1))
    ),
    refuses("SLICE", [f32[4, 5], [0], [1, 1]], f32[()], "input 1 has 1 elements, expected 2"),
    gives("SLICE", [i32(_COUNTED), [1, 0, 1], [1, REST, 2]], i32(_COUNTED[1:, :, 1:3])),
    gives("SLICE", [i32(_COUNTED), [2, 0, 0], [REST, 3, 4]], i32(_COUNTED[2:])),
)

_STRIDED: dict[str, Any] = {"f32": 2, "f16": 3, "q8a": 2, "q8as": 4}

STRIDED = table(
    takes(
        "STRIDED_SLICE", [f32[5, 4, 6], [-1, 0, 1], [-6, 3, 2], [-2, 2, 1], 0, 2, 4], f32[3, 2], **_STRIDED, opens=True
    ),
    takes("STRIDED_SLICE", [f32[5, 4], [2, 1], [3, 2], [1, 1], 0, 0, 3], f32[1], **_STRIDED, opens=True),
    # Bounds count from either end, and are clamped.
    *(
        takes("STRIDED_SLICE", [f32[5], [begin], [end], [stride], 0, 0, 0], f32[kept], level=2)
        for begin, end, stride, kept in (
            (0, 5, 2, 3),
            (1, -1, 1, 3),
            (-9, 9, 1, 5),
            (9, 2, -2, 1),
            (4, -6, -1, 5),
        )
    ),
    *(
        takes("STRIDED_SLICE", [f32[5], [begin], [end], [stride], 0, 0, 0], f32[0], level=2, declined="f32")
        for begin, end, stride in ((-9, -9, -1), (3, 1, 1))
    ),
    # Masks open the bounds, or shrink axes of exactly one element.
    *(
        takes("STRIDED_SLICE", [f32[5], [2], [3], [stride], *masks], f32[kept], level=2)
        for stride, masks, kept in ((1, (1, 0, 0), 3), (1, (0, 1, 0), 3), (-1, (1, 0, 0), 1), (-1, (0, 1, 0), 3))
    ),
    takes("STRIDED_SLICE", [f32[5, 5], [1, 0], [2, 5], [1, 1], 0, 0, 1], f32[5], level=2),
    takes("STRIDED_SLICE", [f32[5], [1], [2], [1], 0, 0, 1], f32[1], level=2),
    *(
        refuses("STRIDED_SLICE", [f32[5], [begin], [end], [stride], 0, 0, 1], f32[()], "axis 0 is shrunk")
        for begin, end, stride in ((1, 3, 1), (2, 1, -1), (1, 1, 1))
    ),
    refuses("STRIDED_SLICE", [f32[5], [0], [5], [0], 0, 0, 0], f32[()], "stride 0 on axis 0"),
    *(
        gives("STRIDED_SLICE", [f32(_SQUARE), begin, end, strides, *masks], f32(kept))
        for begin, end, strides, masks, kept in (
            ([0, 1], [4, -1], [2, 1], (0, 0, 0), _SQUARE[0:4:2, 1:-1]),
            ([-1, 9], [-9, 0], [-1, -3], (0, 0, 0), _SQUARE[::-1, 4:0:-3]),
            ([1, 3], [3, 3], [1, 1], (0, 0, 0), _SQUARE[1:3, 3:3]),
            ([-9, 0], [-9, 5], [-1, 1], (0, 0, 0), _SQUARE[0:0]),
            ([3, 3], [1, 1], [1, -1], (1, 2, 0), _SQUARE[:1, 3::-1]),
            ([2, 0], [3, 5], [1, 2], (0, 0, 1), _SQUARE[2, ::2]),
            ([-1, -1], [4, 5], [1, 1], (0, 0, 3), [19]),
        )
    ),
)

ROWS = [*JOINED, *PARTS, *STRIDED]
