"""Products of matrices."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.operations.rows import bias, const, f32, gives, i32, q8a, q8as, refuses, table, takes

_FULLY, _MATMUL = "FULLY_CONNECTED", "BATCH_MATMUL"
_ROWS, _WEIGHTS = np.arange(12.0).reshape(1, 2, 3, 2), np.arange(8.0).reshape(2, 4)
_FIRST, _SECOND = np.arange(12).reshape(2, 2, 3), np.arange(24).reshape(2, 3, 4)

CONNECTED = table(
    *(
        takes(_FULLY, [f32[rows], const(f32[5, 6]), bias(5), act], f32[4, 5], f32=1, f16=3, q8a=1, q8as=4, out=0.9)
        for rows in ((4, 6), (2, 3, 2, 2))
        for act in (0, 1)
    ),
    takes(_FULLY, [f32[2, 1, 2, 3], f32[5, 4], f32[5], 0], f32[3, 5], level=1),
    # An unknown axis leaves the batch open.
    takes(_FULLY, [f32[0, 4], f32[5, 4], f32[5], 0], f32[0, 5], level=1),
    takes(_FULLY, [f32[2, 4], f32[0, 0], f32[5], 0], f32[0, 5], level=1),
    takes(_FULLY, [f32[2, 4], f32[5, 0], f32[0], 0], f32[0, 5], level=1),
    refuses(_FULLY, [f32[2, 3], f32[5, 4], f32[5], 0], f32[0, 0], "a multiple of 4 elements"),
    refuses(_FULLY, [f32[2, 4], f32[5, 4], f32[4], 0], f32[0, 0], "bias has 4 elements, expected 5"),
    refuses(_FULLY, [f32[4], f32[5, 4], f32[5], 0], f32[0, 0], "rank 1, expected 2 to 4"),
    gives(
        _FULLY,
        [f32(_ROWS), const(f32(_WEIGHTS)), const(f32([1, -500])), 1],
        f32(np.maximum(_ROWS.reshape(3, 4) @ _WEIGHTS.T + [1, -500], 0)),
    ),
    gives(
        _FULLY,
        [q8a.at(0.5, 128)([[130, 126]]), const(q8a.at(2, 2)([[3, 1], [1, 5]])), const(i32.at(1)([4, 0])), 0],
        q8a.at(1, 50)([[58, 42]]),
    ),
    gives(
        _FULLY,
        [f32(np.zeros((0, 4))), const(f32(np.zeros((5, 4)))), const(f32(np.zeros(5))), 0],
        f32(np.zeros((0, 5))),
    ),
    # The largest products of bytes are summed up exactly.
    *(
        gives(
            _FULLY,
            [
                q8a.at(1)(np.full((1, 256), 255)),
                const(q8a.at(1, 128)(np.full((3, 256), 128 + 127 * sign))),
                const(i32.at(1)(np.zeros(3))),
                0,
            ],
            q8a.at(255 * 127 * 256 / 100, 117)([[117 + 100 * sign] * 3]),
        )
        for sign in (1, -1)
    ),
)

MULTIPLIED = table(
    *(
        takes(
            _MATMUL,
            [f32[(2, 4, 3) if a else (2, 3, 4)], f32[(2, 5, 4) if b else (2, 4, 5)], a, b],
            f32[2, 3, 5],
            f32=6,
            f16=6,
            i32=6,
            q8as=6,
            out=1.0,
        )
        for a, b in ((False, False), (True, False), (False, True))
    ),
    takes(_MATMUL, [f32[2, 3], f32[3, 4], False, False], f32[2, 4], level=6),
    takes(_MATMUL, [f32[3, 2], f32[4, 3], True, True], f32[2, 4], level=6),
    takes(_MATMUL, [f32[5, 0, 2, 3], f32[0, 6, 4, 3], False, True], f32[5, 6, 2, 4], level=6),
    *(
        refuses(_MATMUL, [f32[first], f32[second], False, False], f32[()], "cannot be multiplied")
        for first, second in (
            ((2, 3), (4, 3)),
            ((1, 2, 3), (5, 3, 4)),
            ((2, 3), (1, 3, 4)),
            ((1, 1, 2, 3), (1, 3, 4)),
        )
    ),
    refuses(_MATMUL, [q8a[2, 2], q8a[2, 2], False, False], q8a[2, 2], "TENSOR_QUANT8_ASYMM, expected"),
    refuses(_MATMUL, [f32[2], f32[2], False, False], f32[()], "rank 1, expected 2 to 4"),
    refuses(_MATMUL, [f32[2, 2], f32[2, 2], False], f32[()], "got 3 inputs, expected 4"),
    *(
        gives(
            _MATMUL,
            [kind(_FIRST.swapaxes(1, 2) if a else _FIRST), kind(_SECOND.swapaxes(1, 2) if b else _SECOND), a, b],
            kind(_FIRST @ _SECOND),
        )
        for kind in (f32, i32)
        for a, b in product((False, True), repeat=2)
    ),
    gives(_MATMUL, [i32([[2**24 + 1]]), i32([[3]]), False, False], i32([[3 * (2**24 + 1)]])),
    # Quantised products saturate: 5 * 1 - 5 * 1.5, and 50 * 2.5.
    gives(
        _MATMUL,
        [q8as.at(0.5, 1)([[11, -9], [101, 101]]), q8as.at(0.25, -2)([[2], [4]]), False, False],
        q8as.at(0.5, 5)([[0], [127]]),
    ),
    gives(_MATMUL, [f32(np.zeros((2, 0))), f32(np.zeros((0, 3))), False, False], f32(np.zeros((2, 3)))),
)

ROWS = [*CONNECTED, *MULTIPLIED]
