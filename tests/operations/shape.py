"""Other dimensions of the same elements."""

from __future__ import annotations

import numpy as np

from nnhal.operations.operand_types import I32
from tests.operations.rows import absent, b8, f32, gives, i32, integer, q16s, refuses, table, takes, waits

_ALL = absent(I32)
"""No axes: all of one element."""

ROWS = table(
    takes("RESHAPE", [f32[2, 4, 6, 8], [4, -1, 3]], f32[4, 32, 3], f32=1, f16=3, q8a=1, q8as=4, i32=6, opens=True),
    takes("RESHAPE", [f32[2, 6], [3, -1]], f32[3, 4], level=1),
    takes("RESHAPE", [f32[2, 6], [12]], f32[12], level=1),
    takes("RESHAPE", [f32[0, 6], [3, -1]], f32[3, 0], level=1),
    *(refuses("RESHAPE", [f32[2, 6], shape], f32[()], "shape") for shape in ([-1, -1], [5, -1], [3, 5], [-2, 6])),
    gives("RESHAPE", [f32(np.zeros((0, 6))), [-1, 3, 2]], f32(np.zeros((0, 3, 2)))),
    takes("SQUEEZE", [f32[1, 3, 1, 4], [2]], f32[1, 3, 4], f32=2, f16=3, q8a=2, q8as=4, opens=True),
    takes("SQUEEZE", [f32[1, 1], [0, 1]], f32[1], level=2, opens=True),
    takes("SQUEEZE", [f32[1, 3, 1], _ALL], f32[3], level=2),
    takes("SQUEEZE", [f32[1, 3, 1], [0]], f32[3, 1], level=2),
    takes("SQUEEZE", [f32[1, 3, 1], [-1, 2]], f32[1, 3], level=2),
    takes("SQUEEZE", [f32[1, 1], _ALL], f32[1], level=2),
    takes("SQUEEZE", [f32[0, 3], [0]], f32[3], level=2),
    waits("SQUEEZE", [f32[0, 3], _ALL], f32[()]),
    refuses("SQUEEZE", [f32[1, 3], [1]], f32[()], "axis 1 has 3 elements, expected 1"),
    refuses("SQUEEZE", [f32([[], []]), [1]], f32[()], "axis 1 has 0 elements"),
    gives("SQUEEZE", [f32([[[1], [2]]]), _ALL], f32([1, 2])),
    gives("SQUEEZE", [f32(np.zeros((1, 0, 1))), [-1]], f32(np.zeros((1, 0)))),
    takes("EXPAND_DIMS", [f32[3, 4], -1], f32[3, 4, 1], f32=3, f16=3, i32=3, q8a=3, q8as=4, opens=True),
    takes("EXPAND_DIMS", [f32[3, 4], 0], f32[1, 3, 4], f32=3, f16=3, i32=3, q8a=3, q8as=4, opens=True),
    *(
        takes("EXPAND_DIMS", [f32[2, 0], axis], f32[expanded], level=3)
        for axis, expanded in ((0, (1, 2, 0)), (2, (2, 0, 1)), (-1, (2, 0, 1)), (-2, (2, 1, 0)), (-3, (1, 2, 0)))
    ),
    *(refuses("EXPAND_DIMS", [f32[2, 3], axis], f32[()], f"axis {axis}, expected -3 to 2") for axis in (3, -4)),
    gives("EXPAND_DIMS", [i32([[1, 2], [3, 4]]), -2], i32([[[1, 2]], [[3, 4]]])),
    takes("RANK", [q16s[2, 3]], integer[()], level=4),
    takes("RANK", [f32[2, 3]], integer[()], f32=4, f16=4, i32=4, b8=4, q8a=4, q8as=4),
    refuses("RANK", [integer(2)], integer[()], "INT32, expected TENSOR_BOOL8"),
    refuses("RANK", [f32[2]], i32[1], "TENSOR_INT32, expected INT32"),
    gives("RANK", [b8(np.zeros((2, 0, 1)))], integer(3)),
)
