"""Reductions along axes, and the places of extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operations.rows import Kind, b8, f16, f32, gives, i32, q8a, q8as, refuses, table, takes, waits

_EXTREMES = "REDUCE_MAX REDUCE_MIN"
_VALUES = np.array([[[1, 2], [3, 4], [5, 6]], [[-1, -2], [0, 1], [2, 0.5]]])
_FUNCTIONS: dict[str, Any] = {"REDUCE_SUM": np.sum, "REDUCE_PROD": np.prod, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min}
_COUNTED = np.arange(12.0).reshape(2, 3, 2)
_KINDS: tuple[Kind, ...] = (f32, i32, q8a.at(0.5), q8as.at(0.5))
_REDUCED = {(1, 2): (2, 5), (2, 3): (2, 3), (-1,): (2, 3, 4), (0, 1, 2, 3): (1,), (3, -2, 3): (2, 3)}
"""Axes of (2, 3, 4, 5), and what is left."""
_KEPT = {(1, 2): (2, 1, 1, 5), (2, 3): (2, 3, 1, 1), (-1,): (2, 3, 4, 1), (0, 1, 2, 3): (1, 1, 1, 1)}

SUMS = table(
    *(
        takes("MEAN", [f32[2, 3, 4, 5], [*axes], keep], f32[left], f32=2, f16=3, q8a=2, q8as=4)
        + takes(_EXTREMES, [f32[2, 3, 4, 5], [*axes], bool(keep)], f32[left], f32=3, f16=3, q8a=3, q8as=4)
        for keep, table_ in ((0, _REDUCED), (1, _KEPT))
        for axes, left in table_.items()
    ),
    *(
        takes("REDUCE_ALL REDUCE_ANY", [b8[4, 3, 2], [2], keep], b8[left], level=3)
        for keep, left in ((False, (4, 3)), (True, (4, 3, 1)))
    ),
    *(
        takes("REDUCE_SUM REDUCE_PROD", [f32[2, 3, 2], [0, 2], keep], f32[left], f32=3, f16=3)
        for keep, left in ((False, (3,)), (True, (1, 3, 1)))
    ),
    *(
        takes("REDUCE_SUM", [f32[2, 3, 0], axes, keep], f32[left], level=3)
        for axes, keep, left in (
            ([1], False, (2, 0)),
            ([-2, 1], True, (2, 1, 0)),
            ([0, 1, -1], False, (1,)),
            ([0, 1, 2], True, (1, 1, 1)),
        )
    ),
    *(
        takes("MEAN", [f32[2, 3, 0], axes, keep], f32[left], level=2)
        for axes, keep, left in (
            ([1], 0, (2, 0)),
            ([-2, 1], 5, (2, 1, 0)),
            ([1], -1, (2, 0)),
            ([], 0, (2, 3, 0)),
            ([0, 1, 2], 0, (1,)),
            ([0, 1, 2], 1, (1, 1, 1)),
        )
    ),
    waits("REDUCE_SUM", [f32[2, 3], i32[1], False], f32[()]),
    refuses("REDUCE_SUM", [f32[2, 3, 4], [-4], False], f32[()], r"axis -4, expected -3 to 2"),
    refuses("REDUCE_SUM", [q8a[2, 3], [0], False], q8a[3], "expected"),
    refuses("REDUCE_ANY", [f32[2, 3], [0], False], f32[3], "expected"),
    refuses("REDUCE_MAX", [q8a.at(0.5, 9)[2, 3], [0], False], q8a.at(0.5, 8)[3], r"zero point 8, expected 0.5 and 9"),
    refuses("MEAN", [f32[2, 3, 4], [3], 0], f32[()], "axis 3"),
    *(
        gives(name, [f32(_VALUES), [1, -1], False], f32(function(_VALUES, axis=(1, 2))))
        + gives(name, [f32(_VALUES), [0], True], f32(function(_VALUES, axis=0, keepdims=True)))
        + gives(name, [f32(_VALUES), [0, 1, 2], False], f32([function(_VALUES)]))
        for name, function in _FUNCTIONS.items()
    ),
    gives("REDUCE_MAX", [q8a.at(0.5)([[3, 200], [7, 100]]), [0], False], q8a.at(0.5)([7, 200])),
    gives("REDUCE_MIN", [q8as.at(0.5)([[3, -100], [7, 100]]), [1], False], q8as.at(0.5)([-100, 7])),
    # Booleans come out as 0 and 1.
    gives("REDUCE_ALL", [b8([[0, 2], [3, 4], [0, 0]]), [1], False], b8([0, 1, 0])),
    gives("REDUCE_ANY", [b8([[0, 2], [3, 4], [0, 0]]), [1], False], b8([1, 1, 0])),
    gives("REDUCE_ANY", [b8([[0, 2]]), [], False], b8([[0, 1]])),
    gives("REDUCE_SUM", [f32([[0, 2]]), [], False], f32([[0, 2]])),
    # No elements reduce to what changes nothing.
    *(
        gives(name, [kind(np.zeros((0, 2))), [0], False], kind([neutral, neutral]))
        for name, kind, neutral in (
            ("REDUCE_ALL", b8, 1),
            ("REDUCE_ANY", b8, 0),
            ("REDUCE_MAX", f32, -np.inf),
            ("REDUCE_MIN", q8as.at(0.5), 127),
            ("REDUCE_PROD", f32, 1),
            ("REDUCE_SUM", f16, 0),
        )
    ),
    gives("MEAN", [f32(_COUNTED), [1, -2], 0], f32(_COUNTED.mean(axis=1))),
    gives("MEAN", [f32(_COUNTED), [0, 2], 1], f32(_COUNTED.mean(axis=(0, 2), keepdims=True))),
    gives("MEAN", [f32(_COUNTED), [], 0], f32(_COUNTED)),
    gives("MEAN", [f32(_COUNTED), [0, 1, 2], 0], f32([5.5])),
    # Averages of bytes round half away from zero.
    gives("MEAN", [q8as.at(0.5, 4)([[1, 2], [-1, -2], [127, 126]]), [1], 0], q8as.at(0.5, 4)([2, -2, 127])),
)

PLACES = table(
    *(
        takes("ARGMAX ARGMIN", [f32[given], axis], i32[left], f32=3, f16=3, i32=3, q8a=3, q8as=4, declined="f16")
        for given, axis, left in (
            ((3, 70, 4), 0, (70, 4)),
            ((3, 70, 4), -1, (3, 70)),
            ((70,), 0, (1,)),
            ((70,), -1, (1,)),
            ((2, 0, 4), -1, (2, 0)),
            ((2, 0, 4), 0, (0, 4)),
        )
    ),
    refuses("ARGMIN", [f32([[], []]), 1], i32[()], "axis 1 has no elements"),
    # The first of equal elements counts.
    *(
        gives("ARGMAX", [kind([[2, 9, 9], [5, 1, 1]]), -1], i32([1, 0]))
        + gives("ARGMIN", [kind([[2, 9, 9], [5, 1, 1]]), 1], i32([0, 1]))
        + gives("ARGMAX", [kind([[2, 9, 9], [5, 1, 1]]), 0], i32([1, 0, 0]))
        for kind in _KINDS
    ),
    gives("ARGMIN", [f32([3, 1, 2]), 0], i32([1])),
    takes("TOPK_V2", [f32[2, 0], 3], [f32[2, 3], i32[2, 3]], f32=3, f16=3, i32=3, q8a=3, q8as=4),
    *(refuses("TOPK_V2", [f32[2, 4], k], [f32[()], i32[()]], f"k is {k}") for k in (0, -1, 5)),
    refuses("TOPK_V2", [q8a.at(0.5)[4], 1], [q8a.at(0.25)[1], i32[1]], r"output 0 has scale 0.25"),
    # Of equal elements the last comes first.
    *(
        gives(
            "TOPK_V2",
            [kind([[3, 9, 3, 9], [1, 2, 3, 4]]), 3],
            [kind([[9, 9, 3], [4, 3, 2]]), i32([[3, 1, 2], [3, 2, 1]])],
        )
        for kind in _KINDS
    ),
)

ROWS = [*SUMS, *PLACES]
