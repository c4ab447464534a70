"""Normalisations along an axis, among neighbouring channels, and of the channels of an image."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from tests.operations.rows import LAST, f16, f32, gives, half, q8a, q8as, refuses, table, takes

_L2, _LRN = "L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION"
_VALUES = np.random.default_rng(1).normal(size=(2, 3, 4, 5))
_IMAGES = np.random.default_rng(2).normal(3, 2, size=(2, 4, 5, 3))
_NORMAL = (_IMAGES - _IMAGES.mean((1, 2), keepdims=True)) / np.sqrt(_IMAGES.var((1, 2), keepdims=True) + 1e-3)
_ROOTS = np.round(128 * np.array([[3, 5], [0, 0]]) / np.sqrt(34))


def _neighbours(values: Array, radius: int, axis: int) -> Array:
    """Return a local response normalisation with bias 9, alpha 4 and beta 0.5."""
    values = np.moveaxis(values, axis, -1)
    result = np.empty_like(values)
    for index in range(values.shape[-1]):
        window = values[..., max(0, index - radius) : index + radius + 1]
        result[..., index] = values[..., index] / (9 + 4 * (window**2).sum(-1)) ** 0.5
    return np.moveaxis(result, -1, axis)


ROWS = table(
    takes(_L2, [f32[1, 2, 3, 4]], f32[1, 2, 3, 4], f32=1, f16=3),
    takes(_L2, [f32[1, 2, 3, 4], 0], f32[1, 2, 3, 4], f32=3, f16=3),
    takes(_L2, [f32[3, 4]], f32[3, 4], f32=3, f16=3),
    takes(_L2, [q8a[3, 4, 5], 1], q8a.at(1 / 128, 128)[3, 4, 5], level=3),
    takes(_L2, [q8as[3, 4, 5], 1], q8as.at(1 / 128)[3, 4, 5], level=4),
    refuses(_L2, [q8a[3]], q8a.at(1 / 128)[3], r"zero point 0, expected 0.0078125 and 128"),
    refuses(_L2, [f32[3, 4], 2], f32[()], "axis 2"),
    # Vectors have length 1, or 0.
    gives(_L2, [f32([[3, 4], [0, 0]])], f32([[0.6, 0.8], [0, 0]]), near=1e-6),
    gives(_L2, [f32([[3, 4], [0, 0]]), 0], f32([[1, 1], [0, 0]])),
    gives(_L2, [q8a.at(0.5, 4)([[7, 9], [4, 4]])], q8a.at(1 / 128, 128)(_ROOTS + 128)),
    gives(_L2, [q8as.at(0.5, 4)([[7, 9], [4, 4]])], q8as.at(1 / 128)(_ROOTS)),
    gives(_L2, [f32(np.zeros((2, 0)))], f32(np.zeros((2, 0)))),
    takes(_LRN, [f32[1, 2, 3, 4], 2, 0.5, 0.5, 0.5], f32[1, 2, 3, 4], f32=1, f16=3),
    takes(_LRN, [f32[1, 2, 3, 4], 2, 0.5, 0.5, 0.5, -4], f32[1, 2, 3, 4], f32=3, f16=3, declined="f32 f16"),
    takes(_LRN, [f32[3, 4], 2, 0.5, 0.5, 0.5], f32[3, 4], f32=3, f16=3, declined="f32 f16"),
    *(
        takes(_LRN, [f32[2, 9, 4, 7], radius, 9.0, 0.5, 0.75, axis], f32[2, 9, 4, 7], level=3)
        for radius in (2, 8, 2**31 - 1)
        for axis in (-1, 1)
    ),
    refuses(_LRN, [f16[3, 4], 2, 0.5, 0.5, 0.5], f16[3, 4], r"input 2 \(bias\) is FLOAT32, expected FLOAT16"),
    refuses(_LRN, [f16[3, 4], -1, *[half(0.5)] * 3], f16[3, 4], "radius -1"),
    *(
        gives(
            _LRN,
            [f32(_VALUES), radius, 9.0, 4.0, 0.5, *axis],
            f32(_neighbours(_VALUES, radius, *axis or (-1,))),
            near=1e-5,
        )
        + gives(
            _LRN,
            [f16(_VALUES), radius, half(9), half(4), half(0.5), *axis],
            f16(_neighbours(_VALUES, radius, *axis or (-1,))),
            near=5e-3,
        )
        for radius in (0, 1, 20)
        for axis in ((), (3,), (-3,))
    ),
    gives(_LRN, [f32(np.zeros((2, 0))), 2, 9.0, 4.0, 0.5], f32(np.zeros((2, 0)))),
    takes("INSTANCE_NORMALIZATION", [f32[2, 5, 4, 3], 1.5, -0.5, 1e-3, LAST], f32[2, 5, 4, 3], f32=3, f16=3),
    # Each channel of each image is on its own.
    gives("INSTANCE_NORMALIZATION", [f32(_IMAGES), 2.0, 0.5, 1e-3, LAST], f32(2 * _NORMAL + 0.5), near=1e-4),
    gives(
        "INSTANCE_NORMALIZATION",
        [f16(_IMAGES), half(2), half(0.5), half(1e-3), LAST],
        f16(2 * _NORMAL + 0.5),
        near=1e-2,
    ),
    gives("INSTANCE_NORMALIZATION", [f32(np.zeros((0, 2, 2, 1))), 2.0, 0.5, 1e-3, LAST], f32(np.zeros((0, 2, 2, 1)))),
)
