"""Pooling: the mean, the maximum or the root mean square of windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.windows import SAME, VALID
from tests.operations.rows import LAST, f32, gives, q8a, q8as, refuses, table, takes

_MEANS = "AVERAGE_POOL_2D MAX_POOL_2D"
_IMAGES = f32[2, 7, 6, 4]
_EXPLICIT = (1, 2, 0, 1, 2, 1, 3, 2, 0)
"""Left, right, top, bottom, stride width and height, width, height, no activation."""
_SEEN = np.random.default_rng(1).standard_normal((2, 4, 6, 3)) - 5
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "MAX_POOL_2D": lambda seen: seen.max(axis=1),
    "AVERAGE_POOL_2D": lambda seen: seen.mean(axis=1),
    "L2_POOL_2D": lambda seen: np.sqrt((seen**2).mean(axis=1)),
}


def _windows(images: Array, function: Callable[[Array], Array]) -> Array:
    """Pool [b, h, w, c] as ``_EXPLICIT`` does, window by window; padding takes no part."""
    _, height, width, _ = images.shape
    rows = [
        [
            function(images[:, y : y + 2, max(x, 0) : x + 3].reshape(len(images), -1, images.shape[3]))
            for x in range(-1, width, 2)
        ]
        for y in range(height)
    ]
    return np.array(rows).transpose(2, 0, 1, 3)


ROWS = table(
    *(
        takes(_MEANS, [_IMAGES, SAME, 2, 1, 3, 2, act, LAST], f32[2, 7, 3, 4], f32=3, f16=3, q8a=3, q8as=4)
        for act in (0, 3)
    ),
    takes("L2_POOL_2D", [_IMAGES, *_EXPLICIT, LAST], f32[2, 7, 4, 4], f32=3, f16=3),
    takes(_MEANS, [_IMAGES, SAME, 1, 1, 2, 2, 0], f32[2, 7, 6, 4], f32=1, f16=3, q8a=1, q8as=4),
    takes("L2_POOL_2D", [_IMAGES, SAME, 1, 1, 2, 2, 0], f32[2, 7, 6, 4], f32=1, f16=3),
    takes("MAX_POOL_2D", [f32[0, 8, 0, 3], VALID, 2, 2, 2, 2, 0], f32[0, 4, 0, 3], level=1),
    *(refuses("MAX_POOL_2D", [f32[1, 4, 4, 1], *[1] * n], f32[1, 4, 4, 1], "inputs|BOOL") for n in (5, 8, 11)),
    *(
        refuses("MAX_POOL_2D", [f32[1, 4, 4, 1], *parameters], f32[()], words)
        for parameters, words in (
            ((VALID, 1, 1, 9, 9, 0), "does not fit"),
            ((0, 0, 2, 0, 1, 1, 2, 2, 0), "holds only padding"),
            ((0, 2, 0, 0, 1, 1, 2, 2, 0), "holds only padding"),
            ((3, 1, 1, 1, 1, 0), "padding scheme 3"),
            ((0, 1, 1, 1, 1, 0), "padding scheme 0"),
            ((SAME, 0, 1, 1, 1, 0), "stride 0"),
            ((SAME, 1, 1, 1, 0, 0), "size 0"),
            ((SAME, 1, 1, 1, 1, 4), "activation 4"),
            ((-1, 0, 0, 0, 1, 1, 1, 1, 0), "paddings -1 and 0"),
        )
    ),
    refuses("MAX_POOL_2D", [f32(np.zeros((1, 0, 8, 3))), VALID, 2, 2, 2, 2, 0], f32[()], "0 x 8"),
    refuses(
        "MAX_POOL_2D",
        [q8a.at(0.5, 3)[1, 4, 4, 1], SAME, 1, 1, 2, 2, 0],
        q8a.at(0.5, 4)[()],
        r"zero point 4, expected 0\.5 and 3",
    ),
    *(
        gives(name, [f32(_SEEN), *_EXPLICIT, LAST], f32(_windows(_SEEN, function)), near=1e-5)
        + gives(name, [f32(np.zeros((0, 4, 4, 2))), SAME, 2, 2, 3, 3, 0], f32(np.zeros((0, 2, 2, 2))))
        for name, function in _FUNCTIONS.items()
    ),
    # Averages of bytes round half away from zero, and the activation clamps.
    *(
        gives(
            "AVERAGE_POOL_2D",
            [q8as.at(0.5, 2)(np.reshape([-2, -3, 2, 3], (1, 2, 2, 1))), SAME, 2, 1, 2, 1, act],
            q8as.at(0.5, 2)(np.reshape(means, (1, 2, 1, 1))),
        )
        for act, means in ((0, [-3, 3]), (1, [2, 3]))
    ),
    gives(
        "MAX_POOL_2D",
        [q8as.at(0.5)(np.full((1, 2, 2, 1), -128)), SAME, 1, 1, 2, 2, 0],
        q8as.at(0.5)(np.full((1, 2, 2, 1), -128)),
    ),
)
