"""Operations on each element of one tensor, and of tensors that broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Array
from tests.operations.rows import b8, f32, gives, i32, q8a, q8as, refuses, table, takes, waits

NAN, INF = np.nan, np.inf
LARGE = 2**24 + 1
"""An integer that float32 rounds."""
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "NEG": np.negative,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SIN": np.sin,
    "SQRT": np.sqrt,
}
_PAIRS = np.meshgrid(*[np.arange(0, 256, 3)] * 2)
"""Pairs of bytes."""
_COMPARISONS = "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL"
_AT_2 = {
    "EQUAL": [0, 1, 0],
    "GREATER": [0, 0, 1],
    "GREATER_EQUAL": [0, 1, 1],
    "LESS": [1, 0, 0],
    "LESS_EQUAL": [1, 1, 0],
    "NOT_EQUAL": [1, 0, 1],
}
"""What each comparison says of a smaller number, an equal one and a larger one."""

ARITHMETIC = table(
    *(
        takes("ADD MUL", [f32[2, 1, 5], f32[4, 5], act], f32[2, 4, 5], f32=1, q8a=1, f16=3, q8as=4, out=0.07)
        + takes("SUB", [f32[2, 1, 5], f32[4, 5], act], f32[2, 4, 5], f32=2, q8a=3, f16=3, q8as=4, out=0.07)
        for act in range(4)
    ),
    takes("ADD SUB MUL", [i32[3, 4], i32[4], 0], i32[3, 4], level=4),
    takes("DIV", [f32[3, 4], f32[4], 0], f32[3, 4], f32=2, f16=3, i32=4, declined="i32"),
    takes("POW", [f32[2, 3], f32[3]], f32[2, 3], f32=3, f16=3, low=0.1),
    takes("MAXIMUM MINIMUM", [f32[3, 4], f32[4]], f32[3, 4], f16=3, f32=3, i32=3, q8a=3, q8as=4, out=0.07),
    takes("PRELU", [f32[1, 3, 4, 5], f32[5]], f32[1, 3, 4, 5], f16=3, f32=3, q8a=3, q8as=4, out=0.07),
    # Quantised results are the real ones rounded.
    *(
        gives(
            name,
            [kind.at(0.031, low + 120)(_PAIRS[0] + low), kind.at(0.0127, low + 131)(_PAIRS[1] + low), 0],
            kind.at(0.05, low + 128).about(function((_PAIRS[0] - 120) * 0.031, (_PAIRS[1] - 131) * 0.0127)),
        )
        for name, function in (("ADD", np.add), ("SUB", np.subtract), ("MUL", np.multiply))
        for kind, low in ((q8a, 0), (q8as, -128))
    ),
    # The activation clamps.
    gives("ADD", [q8a.at(1, 10)([0, 10, 200]), q8a.at(1, 10)([10]), 3], q8a.at(1, 10)([10, 10, 16])),
    # Integers divide towards minus infinity.
    gives("DIV", [i32([7, -7, 7, -7]), i32([2, 2, -2, -2]), 0], i32([3, -4, -4, 3])),
    gives("ADD", [f32(np.zeros((0, 3))), f32(np.zeros((1, 1))), 0], f32(np.zeros((0, 3)))),
    gives("ADD", [q8a.at(1)(np.zeros((0, 3))), q8a.at(1)(np.zeros((1, 1))), 0], q8a.at(1)(np.zeros((0, 3)))),
    gives("POW", [f32([[4], [-2]]), f32([2, 0.5, 0])], f32([[16, 2, 1], [4, NAN, 1]])),
    *(
        gives("MAXIMUM", [kind([[1], [3]]), kind([1, 4])], kind([[1, 4], [3, 4]]))
        + gives("MINIMUM", [kind([[1], [3]]), kind([1, 4])], kind([[1, 1], [1, 3]]))
        for kind in (f32, i32)
    ),
    # Large integers are exact, whatever their scale.
    gives("MAXIMUM", [i32.at(0.5)([2**30 + 1]), i32.at(0.25)([2**30])], i32.at(0.125)([2**30 + 1])),
    # Quantised values are compared and put out as reals: 5 and -10 against 1.
    takes("MAXIMUM", [q8as.at(0.5, 1)[2], q8as.at(0.25)[1]], q8as.at(2, 3)[2], level=4),
    gives("MAXIMUM", [q8as.at(0.5)([10, -20]), q8as.at(0.25, -4)([0, 0])], q8as.at(0.125, 3)([43, 11])),
    gives("MINIMUM", [q8as.at(0.5)([10, -20]), q8as.at(0.25, -4)([0, 0])], q8as.at(0.03125, 3)([35, -128])),
    # Negative values are multiplied by their channel's alpha.
    gives("PRELU", [f32([[-1, -2], [3, -4]]), f32([0.5, 2])], f32([[-0.5, -4], [3, -8]])),
    gives("PRELU", [q8a.at(0.5, 128)([124, 132]), q8a.at(0.25, 2)([4, 4])], q8a.at(0.125, 100)([92, 116])),
)

FUNCTIONS = table(
    takes("ABS", [f32[3, 4, 2, 2]], f32[3, 4, 2, 2], f16=3, f32=3, i32=4),
    takes("NEG", [f32[3, 4, 2, 2]], f32[3, 4, 2, 2], f16=3, f32=3, i32=3),
    takes("FLOOR", [f32[3, 4, 2, 2]], f32[3, 4, 2, 2], f32=1, f16=3, declined="f16"),
    takes("EXP SIN", [f32[3, 4, 2, 2]], f32[3, 4, 2, 2], f16=3, f32=3),
    takes("LOG SQRT", [f32[3, 4]], f32[3, 4], f16=3, f32=3, low=1),
    takes("RSQRT", [f32[3, 4]], f32[3, 4], f16=3, f32=3, q8a=7, q8as=7, low=1, declined="q8a q8as"),
    takes("HARD_SWISH", [f32[2, 200]], f32[2, 200], f16=4, f32=4, q8a=4, q8as=4),
    takes("LOGICAL_NOT", [b8[3, 4]], b8[3, 4], level=3),
    takes("NEG", [i32[2, 0]], i32[2, 0], level=3),
    takes("EXP", [f32[1, 2, 1, 2, 1]], f32[1, 2, 1, 2, 1], level=3),
    refuses("FLOOR", [f32[1, 2, 1, 2, 1]], f32[()], "rank 5, expected 1 to 4"),
    refuses("SIN", [i32[2]], i32[2], "TENSOR_INT32, expected TENSOR_FLOAT16 or TENSOR_FLOAT32"),
    *(
        gives(name, [f32([[0.25, 1.5], [2.0, 3.75]])], f32(function(np.array([[0.25, 1.5], [2.0, 3.75]]))), near=1e-6)
        for name, function in _FUNCTIONS.items()
    ),
    gives("RSQRT", [f32([0, -1, INF])], f32([INF, NAN, 0])),
    gives("LOG", [f32([0, -1])], f32([-INF, NAN])),
    gives("ABS", [i32([-LARGE, 3])], i32([LARGE, 3])),
    gives("NEG", [i32([LARGE, -3])], i32([-LARGE, 3])),
    gives("EXP", [f32(np.zeros((0, 3)))], f32(np.zeros((0, 3)))),
    # Any byte but 0 is true.
    gives("LOGICAL_NOT", [b8([0, 1, 7, 255])], b8([1, 0, 0, 0])),
    gives("HARD_SWISH", [f32([-4, -3, -1.5, 0, 1.5, 3, 5])], f32([0, 0, -0.375, 0, 1.125, 3, 5]), near=1e-7),
    gives("HARD_SWISH", [q8as.at(0.5, 2)([-8, -2, 8])], q8as.at(0.125, -10)([-10, -13, 14])),
    gives("RSQRT", [q8a.at(0.25, 4)([3, 4, 5, 8])], q8a.at(0.125, 7)([255, 255, 23, 15])),
)

LOGIC = table(
    takes(_COMPARISONS, [f32[3, 4], f32[3, 4]], b8[3, 4], f16=3, f32=3, i32=3, q8a=3, q8as=4, declined="f16"),
    takes("EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR", [b8[2, 1], b8[3]], b8[2, 3], level=3),
    takes("GREATER GREATER_EQUAL LESS LESS_EQUAL", [b8[2, 1], b8[3]], b8[2, 3], level=3, declined="b8"),
    takes("SELECT", [b8[3, 4], f32[3, 4], f32[3, 4]], f32[3, 4], f16=3, f32=3, i32=3, q8a=3, q8as=4),
    takes("LESS", [i32[2, 1, 0], i32[3, 1]], b8[2, 3, 0], level=3),
    takes("EQUAL", [q8as.at(0.5, 1)[2], q8as.at(0.25, -7)[2]], b8[2], level=4),
    takes("SELECT", [b8[0, 3], f32[()], f32[2, 0]], f32[2, 3], level=3),
    waits("SELECT", [b8[()], f32[()], f32[()]], f32[()]),
    refuses("MINIMUM", [b8[2], b8[2]], f32[()], "TENSOR_BOOL8, expected"),
    refuses("GREATER", [f32[2], q8a.at(1)[2]], b8[()], r"input 1 \(second\) is TENSOR_QUANT8_ASYMM, expected TENSOR_F"),
    refuses("GREATER", [f32[2], f32[2]], f32[()], "output 0 is TENSOR_FLOAT32, expected TENSOR_BOOL8"),
    refuses("LOGICAL_AND LOGICAL_OR", [i32[2], i32[2]], b8[()], "TENSOR_INT32, expected TENSOR_BOOL8"),
    *(
        refuses("SELECT", [b8[mask], f32[2, 3], f32[2, 3]], f32[()], "expected equal dimensions", level=3)
        for mask in ((1, 3), (3,), (2, 2))
    ),
    *(
        gives(name, [i32([LARGE - 1, LARGE, LARGE + 1]), i32([LARGE])], b8(expected))
        + gives(name, [f32([[1, 2, 3]]), f32([2])], b8([expected]))
        + gives(name, [q8a.at(0.5)([3, 4, 5]), q8a.at(0.2, 128)([138])], b8(expected))  # 1.5, 2 and 2.5 against 2
        for name, expected in _AT_2.items()
    ),
    gives("EQUAL", [b8([0, 1, 255]), b8([0, 2, 0])], b8([1, 1, 0])),
    gives("EQUAL", [f32([NAN]), f32([NAN])], b8([0])),
    gives("LOGICAL_AND", [b8([[0], [2]]), b8([0, 4])], b8([[0, 0], [0, 1]])),
    gives("LOGICAL_OR", [b8([[0], [2]]), b8([0, 4])], b8([[0, 1], [1, 1]])),
    gives("SELECT", [b8([0, 1, 9]), i32([LARGE] * 3), i32([-LARGE] * 3)], i32([-LARGE, LARGE, LARGE])),
    # What is quantised in another way is quantised again.
    gives(
        "SELECT",
        [b8([0, 1, 9]), q8a.at(0.5)([10, 20, 200]), q8a.at(0.25, 6)([10, 20, 30])],
        q8a.at(0.25, 6)([10, 46, 255]),
    ),
)

ROWS = [*ARITHMETIC, *FUNCTIONS, *LOGIC]
