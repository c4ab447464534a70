"""Tensors that are made of numbers: FILL, and RANDOM_MULTINOMIAL, whose draws are tested beside the kernels."""

from __future__ import annotations

import numpy as np

from tests.operations.rows import f16, f32, gives, half, i32, real, refuses, table, takes, waits

_FILL, _MULTINOMIAL = "FILL", "RANDOM_MULTINOMIAL"

ROWS = table(
    takes(_FILL, [[2, 3], half(1)], f16[2, 3], level=4),
    takes(_FILL, [[2, 3], 1.0], f32[2, 3], level=4),
    takes(_FILL, [[2, 3], 1], i32[2, 3], level=4),
    refuses(_FILL, [[2, 3], 1.0], f16[2, 3], "is FLOAT32, expected FLOAT16"),
    refuses(_FILL, [[2, 3], 1], f32[2, 3], "is INT32, expected FLOAT32"),
    refuses(_FILL, [[2, 3], real(1)], i32[2, 3], "is FLOAT32, expected INT32"),
    takes(_FILL, [[2, 0], 1.0], f32[2, 0], level=4),
    waits(_FILL, [i32[2], 1.0], f32[()]),
    refuses(_FILL, [[2, -1], 1.0], f32[()], "expected at least one, each 0 or more"),
    gives(_FILL, [[2, 1], 2**24 + 1], i32([[2**24 + 1]] * 2)),
    gives(_FILL, [[3, 0], half(0.5)], f16(np.zeros((3, 0)))),
    takes(_MULTINOMIAL, [f16[0, 5], 7, i32[()]], i32[0, 7], level=3),
    takes(_MULTINOMIAL, [f32[3, 5], 7, [1, 2]], i32[3, 7], f32=3, f16=3),
    refuses(_MULTINOMIAL, [f16[3, 5], 0, [1, 2]], i32[()], "0 samples"),
    refuses(_MULTINOMIAL, [f16[3, 5], 1, [1, 2, 3]], i32[()], r"input 2 has dimensions \[3\], expected \[2\]"),
)
