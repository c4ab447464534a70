"""Conversions between types."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.operations.rows import (
    b8,
    f16,
    f32,
    gives,
    i32,
    per_channel,
    q8a,
    q8as,
    q8s,
    q16a,
    q16s,
    refuses,
    table,
    takes,
)

_REALS = [0.25, -0.25, 0.75, 1.25, -0.75, 0.2, 900.0, -900.0, np.inf, -np.inf, np.nan]
_STEPS = np.array([10, 10, 12, 12, 8, 10, 255, 0, 255, 0, 0])
"""Halves go to the even one, and what is too large is clamped."""
_LARGEST = 2**31 - 1

_NUMBERS = (f16, f32, i32, q8a)
_KEPT = {
    **{(f16, made): "f16" for made in (f32, i32, q8a)},
    (f32, f16): "f32",
    (f32, i32): "f32",
    (i32, f16): "i32",
    (q8a, f16): "q8a",
}
"""The conversions that cpu_acc leaves to others, with the type that is given."""

CAST = table(
    *(
        takes("CAST", [given[3, 50]], made[3, 50], level=3, declined=_KEPT.get((given, made), ""))
        for given, made in product(_NUMBERS, repeat=2)
    ),
    *(
        takes("CAST", [kind[2, 3]], kind[2, 3], level=4, declined="q8s q16a q16s")
        + refuses("CAST", [kind[2]], f32[2], "output 0 is TENSOR_FLOAT32")
        for kind in (b8, q8as, q8s, q16a, q16s)
    ),
    refuses("CAST", [f32[2, 0]], i32[3, 2], r"\[2, \?\] and \[3, 2\]"),
    # Numbers are kept if the type has them.
    gives("CAST", [f32([-1.9, 1.9, np.nan])], i32([-1, 1, 0])),
    gives("CAST", [f32([3e9, -np.inf, 0])], i32([_LARGEST, -_LARGEST - 1, 0])),
    gives("CAST", [f32([-0.5, 254.9, 300])], q8a([0, 254, 255])),
    gives("CAST", [f16([-2, 3.5, np.inf])], q8a([0, 3, 255])),
    gives("CAST", [i32([-5, 77, 256])], q8a([0, 77, 255])),
    gives("CAST", [i32([2**24 + 1, -3, 0])], f32([2**24, -3, 0])),
    gives("CAST", [f32([1e6, 1.0, 0.1])], f16([np.inf, 1, np.float16(0.1)])),
    gives("CAST", [q8a([0, 128, 255])], f32([0, 128, 255])),
    gives("CAST", [q8a([0, 128, 255])], i32([0, 128, 255])),
    gives("CAST", [q8as([-128, 0, 127])], q8as([-128, 0, 127])),
    gives("CAST", [q16a([0, 1, 65535])], q16a([0, 1, 65535])),
    gives("CAST", [b8([0, 1, 255])], b8([0, 1, 255]), alone=True),
)

QUANTIZATION = table(
    *(
        takes("QUANTIZE", [f32[3, 50]], made[3, 50], level=level)
        + takes("QUANTIZE", [f16[3, 50]], made[3, 50], level=level)
        for made, level in ((q8a, 3), (q8as, 4))
    ),
    *(
        takes("DEQUANTIZE", [given[3, 50]], f32[3, 50], level=level)
        + takes("DEQUANTIZE", [given[3, 50]], f16[3, 50], level=max(3, level))
        for given, level in ((q8a, 1), (q8as, 4), (q8s, 3))
    ),
    takes("DEQUANTIZE", [per_channel(np.arange(-6, 6).reshape(4, 3), [0.5, 0.25, 2.0], 1)], f32[4, 3], level=3),
    *(
        gives("QUANTIZE", [given(_REALS)], q8a.at(0.5, 10)(_STEPS))
        + gives("QUANTIZE", [given(_REALS)], q8as.at(0.5, -118)(_STEPS - 128))
        for given in (f32, f16)
    ),
    *(
        gives("DEQUANTIZE", [given], made(expected))
        for made in (f32, f16)
        for given, expected in (
            (q8a.at(0.5, 10)([0, 10, 255]), [-5.0, 0.0, 122.5]),
            (q8as.at(0.5, -1)([-128, 127]), [-63.5, 64.0]),
            (q8s.at(0.25)([-128, 2]), [-32.0, 0.5]),
            (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 0), [[1.0, 1.0], [8.0, 8.0]]),
            (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 1), [[1.0, 4.0], [2.0, 8.0]]),
        )
    ),
)

ROWS = [*CAST, *QUANTIZATION]
