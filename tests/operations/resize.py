"""Images of another size."""

from __future__ import annotations

import numpy as np

from tests.operations.rows import LAST, Given, f16, f32, gives, half, q8a, q8as, refuses, table, takes

_NEAREST, _BILINEAR = "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"
_PLACES = ((False, False), (True, False), (False, True))
"""Whether corners are aligned, and whether pixels have their centres at halves."""
_PIXELS = np.random.default_rng(1).integers(0, 100, (2, 3, 4, 5))
_WIDTH, _HEIGHT = 1.5, 0.7
_BY_FACTORS = _PIXELS[:, [0, 1]][:, :, [0, 0, 1, 2, 2, 3]]


def _row(kind: object, *pixels: float) -> Given:
    found: Given = kind(np.reshape(pixels, (1, 1, -1, 1)))  # type: ignore[operator]
    return found


NEAREST = table(
    *(
        takes(
            _NEAREST,
            [f32[2, 5, 6, 4], width, height, LAST, *places],
            f32[2, height, width, 4],
            f32=4,
            f16=4,
            q8a=4,
            q8as=4,
        )
        for width, height in ((12, 15), (9, 3), (6, 5))
        for places in _PLACES
    ),
    takes(_NEAREST, [f32[1, 4, 4, 2], 5, 6, LAST], f32[1, 6, 5, 2], f32=3, f16=3, q8a=3, q8as=4),
    takes(_NEAREST, [q8as[1, 4, 5, 2], 1.5, 0.7, LAST], q8as[1, 2, 7, 2], level=4),
    refuses(_NEAREST, [f32[1, 4, 4, 2], 5, 6], f32[1, 6, 5, 2], "got 3 inputs"),
    *(
        gives(_NEAREST, [_row(f32, 1, 2, 3, 4), count, 1, LAST, *places], _row(f32, *pixels))
        for places, count, pixels in (
            ((), 3, [1, 2, 3]),
            ((), 8, [1, 1, 2, 2, 3, 3, 4, 4]),
            ((True,), 3, [1, 3, 4]),
            ((True,), 1, [1]),
            ((False, True), 3, [1, 3, 4]),
            ((False, True), 1, [3]),
        )
    ),
    *(
        gives(_NEAREST, [kind(_PIXELS), width, height, LAST], kind(_BY_FACTORS))
        for kind, width, height in (
            (f32, _WIDTH, _HEIGHT),
            (f16, half(_WIDTH), half(_HEIGHT)),
            (q8a, _WIDTH, _HEIGHT),
            (q8as, _WIDTH, _HEIGHT),
        )
    ),
)

BILINEAR = table(
    *(
        takes(
            _BILINEAR,
            [f32[2, 5, 6, 4], width, height, LAST, *places],
            f32[2, height, width, 4],
            f32=4,
            f16=4,
            q8a=4,
            q8as=4,
        )
        for width, height in ((9, 3), (2, 11), (1, 1))
        for places in _PLACES
    ),
    takes(_BILINEAR, [f32[1, 4, 4, 2], 5, 6], f32[1, 6, 5, 2], f32=1, f16=3, q8a=3, q8as=4),
    takes(_BILINEAR, [f32[1, 4, 4, 2], 5, 6, LAST], f32[1, 6, 5, 2], f32=3, f16=3, q8a=3, q8as=4),
    takes(_BILINEAR, [f32[1, 4, 4, 2], 1.5, 2.0], f32[1, 8, 6, 2], f32=3, f16=3, q8a=3, q8as=4),
    takes(_BILINEAR, [f32[1, 4, 4, 2], 5, 6, LAST, True], f32[1, 6, 5, 2], f32=4, f16=4, q8a=4, q8as=4),
    takes(_BILINEAR, [f32[0, 4, 0, 2], 5, 6, LAST], f32[0, 6, 5, 2], level=3),
    # Factors round down in float32.
    takes(_BILINEAR, [f32[1, 4, 5, 2], 1.5, 0.7, LAST], f32[1, 2, 7, 2], level=3),
    takes(_BILINEAR, [f32[1, 4, 0, 2], 1.5, 0.7, LAST], f32[1, 2, 0, 2], level=3),
    takes(_BILINEAR, [f32[1, 5, 10, 2], 0.9, 0.6, LAST], f32[1, 3, 9, 2], level=3),
    refuses(_BILINEAR, [f32[1, 4, 4, 2], 5, 2.0], f32[1, 6, 5, 2], "expected"),
    refuses(_BILINEAR, [f32[1, 4, 4, 2], half(1.5), half(2)], f32[1, 6, 5, 2], "expected"),
    *(
        refuses(_BILINEAR, [f32[1, 4, 4, 2], *size], f32[()], "expected")
        for size in ((0, 6), (0.0, 1.0), (0.1, 1.0), (np.inf, 1.0))
    ),
    refuses(_BILINEAR, [f32[1, 4, 4, 2], 5, 6, LAST, True, True], f32[()], "both true"),
    refuses(_BILINEAR, [f32(np.zeros((1, 0, 2, 3))), 4, 5], f32[()], "expected height, width and channels above 0"),
    *(
        gives(_BILINEAR, [_row(f32, 0, 6), 6, 1, *flags], _row(f32, *pixels), near=1e-6)
        for flags, pixels in (
            ((), [0, 2, 4, 6, 6, 6]),
            ((LAST, True, False), [0, 1.2, 2.4, 3.6, 4.8, 6]),
            ((LAST, False, True), [0, 0, 2, 4, 6, 6]),
        )
    ),
    gives(
        _BILINEAR,
        [f32(np.reshape([1, 2, 5, 10], (1, 2, 2, 1))), 4, 2, LAST],
        f32(np.reshape([1, 1.5, 2, 2, 5, 7.5, 10, 10], (1, 2, 4, 1))),
    ),
    # A single pixel with aligned corners is the first.
    gives(_BILINEAR, [_row(f32, 3, 7, 8), 1, 1, LAST, True], _row(f32, 3)),
    *(gives(_BILINEAR, [_row(kind, 10, 12), 4, 1], _row(kind, 10, 11, 12, 12)) for kind in (f16, q8a, q8as)),
    gives(_BILINEAR, [f32(np.zeros((0, 2, 2, 3))), 4, 5], f32(np.zeros((0, 5, 4, 3)))),
)

ROWS = [*NEAREST, *BILINEAR]
