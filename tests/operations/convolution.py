"""Convolutions: filters slide over images, all channels at once, channel by channel, in groups, or transposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.windows import SAME, VALID
from nnhal.types.layout import Dimensions
from tests.operations.rows import (
    LAST,
    Given,
    bias,
    const,
    f32,
    gives,
    i32,
    per_channel,
    q8a,
    q8as,
    refuses,
    rounding,
    table,
    takes,
    waits,
)

Pair = tuple[int, int]
_CONV, _DEPTHWISE, _GROUPED, _TRANSPOSED = "CONV_2D", "DEPTHWISE_CONV_2D", "GROUPED_CONV_2D", "TRANSPOSE_CONV_2D"
_RNG = np.random.default_rng(3)
_IMAGES = (2, 7, 6, 4)
_TYPES: dict[str, Any] = {"f32": 3, "f16": 3, "q8a": 3, "q8as": 4}


def _drawn(*shape: int) -> Array:
    """Return random values that float16 represents exactly."""
    return np.round(_RNG.standard_normal(shape) * 64) / 64


def _convolved(
    images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair], dilations: Pair = (1, 1), groups: int = 1
) -> Array:
    """Convolve images [b, h, w, c] with filters [out, h, w, c / groups]; pairs are (height, width)."""
    padded = np.pad(images.astype(np.float64), ((0, 0), *paddings, (0, 0)))
    channels, rows, columns, depth = filters.shape
    reach = [(size - 1) * dilation + 1 for size, dilation in zip((rows, columns), dilations, strict=True)]
    height, width = ((padded.shape[i + 1] - reach[i]) // strides[i] + 1 for i in (0, 1))
    result = np.zeros((len(images), height, width, channels))
    for y, x, channel in np.ndindex(height, width, channels):
        first = channel // (channels // groups) * depth
        top, left = y * strides[0], x * strides[1]
        seen = padded[
            :, top : top + reach[0] : dilations[0], left : left + reach[1] : dilations[1], first : first + depth
        ]
        result[:, y, x, channel] = (seen * filters[channel]).sum(axis=(1, 2, 3))
    return result


def _transposed(images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair]) -> Array:
    """Convolve images [b, h, w, c] transposed with filters [out, h, w, c]: every element adds its filter."""
    batch, height, width, _ = images.shape
    channels, rows, columns, _ = filters.shape
    canvas = np.zeros((batch, (height - 1) * strides[0] + rows, (width - 1) * strides[1] + columns, channels))
    for b, y, x in np.ndindex(batch, height, width):
        top, left = y * strides[0], x * strides[1]
        canvas[b, top : top + rows, left : left + columns] += np.einsum("i,ohwi->hwo", images[b, y, x], filters)
    (top, bottom), (left, right) = paddings
    return canvas[:, top : canvas.shape[1] - bottom, left : canvas.shape[2] - right]


def _by_channel(dimensions: Dimensions, channels: int, axis: int) -> Given:
    """Return weights with a scale for each channel."""
    values = np.random.default_rng(1).integers(-128, 128, dimensions)
    return per_channel(values, [float(np.float32(0.02 * (1 + c / 8))) for c in range(channels)], axis)


def _summed(
    images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair], dilations: Pair = (1, 1), groups: int = 1
) -> float:
    """Return how far sums may be off by rounding."""
    sums = _convolved(np.abs(images), np.abs(filters), strides, paddings, dilations, groups)
    return rounding(filters[0].size + 1, sums)


_SEEN, _WEIGHTS, _BIAS = _drawn(2, 7, 6, 3), _drawn(4, 3, 2, 3), _drawn(4)
_WINDOW = (1, 2), ((2, 1), (1, 0)), (2, 3)
_BYTES, _SIGNED = _RNG.integers(0, 256, (1, 5, 5, 8)), _RNG.integers(0, 256, (6, 3, 3, 8))
_SUMS = _RNG.integers(-500, 500, 6)
_EXACT = _convolved(_BYTES - 3, _SIGNED - 5, (1, 1), ((1, 1), (1, 1))) + _SUMS

CONVOLVED = table(
    *(
        takes(
            _CONV,
            [f32[_IMAGES], const(f32[5, 3, 2, 4]), bias(5), SAME, 2, 1, act, LAST, 1, 2],
            f32[2, 7, 3, 5],
            **_TYPES,
            out=0.9,
        )
        for act in (0, 3)
    ),
    *(
        takes(
            _CONV,
            [kind[_IMAGES], _by_channel((5, 3, 2, 4), 5, 0), i32[5], SAME, 2, 1, act, LAST, 1, 2],
            kind.at(0.9, kind.zero_point)[2, 7, 3, 5],
            level=level,
        )
        for kind, level in ((q8a, 3), (q8as, 4))
        for act in (0, 3)
    ),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0], f32[1, 8, 8, 5], level=1),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0, LAST], f32[1, 8, 8, 5], level=3),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0, LAST, 2, 2], f32[1, 8, 8, 5], level=3),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], 1, 1, 1, 1, 1, 1, 0], f32[1, 8, 8, 5], level=1),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], 0, 1, 2, 3, 1, 2, 0], f32[1, 6, 7, 5], level=1),
    takes(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], 2, 2, 2, 2, 1, 1, 0, LAST, 2, 2], f32[1, 8, 8, 5], level=3),
    # Unknown images leave their axes open, an unknown filter or rank everything.
    takes(_CONV, [f32[0, 0, 8, 0], f32[5, 3, 3, 3], f32[5], VALID, 1, 1, 0], f32[0, 0, 6, 5], level=1),
    waits(_CONV, [f32[()], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0], f32[1, 8, 8, 5]),
    waits(_CONV, [f32[1, 8, 8, 3], f32[()], f32[5], SAME, 1, 1, 0], f32[1, 8, 8, 5]),
    # Outputs finer than the products came with level 3.
    *(
        takes(
            _CONV,
            [q8a.at(0.5)[1, 8, 8, 3], q8a.at(0.25)[5, 3, 3, 3], i32.at(0.125)[5], SAME, 1, 1, 0],
            q8a.at(scale)[1, 8, 8, 5],
            level=level,
        )
        for scale, level in ((0.25, 1), (0.125, 3))
    ),
    *(
        refuses(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], *more], f32[1, 8, 8, 5], "inputs, expected")
        for more in (
            [SAME, 1, 1],
            [SAME, 1, 1, 0, LAST, 2],
            [1, 1, 1, 1, 1, 1, 0, LAST, 2],
            [1, 1, 1, 1, 1, 1, 0, LAST, 2, 2, 1],
        )
    ),
    refuses(
        _CONV,
        [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0, 0],
        f32[1, 8, 8, 5],
        r"input 7 \(layout\) is INT32, expected BOOL",
    ),
    *(
        refuses(
            _CONV, [q8a.at(0.5)[1, 8, 8, 3], filters, i32.at(scale)[5], SAME, 1, 1, 0], q8a.at(1)[1, 8, 8, 5], words
        )
        for filters, scale, words in (
            (per_channel(np.zeros((5, 3, 3, 3)), [0.5] * 3, 3), 0.0, "channel dimension is 3, expected 0"),
            (q8a.at(0.25)[5, 3, 3, 3], 0.1, r"bias has scale 0.1, expected 0.125"),
            (q8as.at(0.25)[5, 3, 3, 3], 0.125, "input 1"),
        )
    ),
    refuses(_CONV, [f32[1, 8, 8, 4], f32[5, 3, 3, 3], f32[5], SAME, 1, 1, 0], f32[()], "depth is 3, expected 4"),
    refuses(_CONV, [f32[1, 8, 8, 3], f32[5, 3, 3, 3], f32[4], SAME, 1, 1, 0], f32[()], "bias has dimensions"),
    # Left, right, top, bottom, stride width and height, no activation; dilation width and height.
    gives(
        _CONV,
        [f32(_SEEN), const(f32(_WEIGHTS)), const(f32(_BIAS)), 1, 0, 2, 1, 2, 1, 0, LAST, 3, 2],
        f32(_convolved(_SEEN, _WEIGHTS, *_WINDOW) + _BIAS),
        near=_summed(_SEEN, _WEIGHTS, *_WINDOW),
    ),
    *(
        gives(
            _CONV,
            [
                kind.at(0.5, low + 3)(_BYTES + low),
                const(kind.at(0.25, low + 5)(_SIGNED + low)),
                const(i32.at(0.125)(_SUMS)),
                SAME,
                1,
                1,
                0,
            ],
            kind.at(256, low + 100).about(_EXACT * 0.125),
        )
        for kind, low in ((q8a, 0), (q8as, -128))
    ),
    # Every channel of a filter may have its own scale.
    gives(
        _CONV,
        [
            q8a.at(0.5, 10)([[[[14]]]]),
            per_channel(np.reshape([1, -2, 3], (3, 1, 1, 1)), [1.0, 2.0, 0.5], 0),
            const(i32([2, 0, 0])),
            SAME,
            1,
            1,
            0,
        ],
        q8a.at(1, 20)([[[[23, 12, 23]]]]),
    ),
    # The activation comes last.
    gives(_CONV, [f32([[[[-3], [9]]]]), const(f32([[[[1]]]])), const(f32([1])), SAME, 1, 1, 3], f32([[[[0], [6]]]])),
    gives(
        _CONV,
        [f32(np.zeros((0, 4, 4, 2))), const(f32(np.zeros((3, 2, 2, 2)))), const(f32(np.zeros(3))), SAME, 2, 2, 0],
        f32(np.zeros((0, 2, 2, 3))),
    ),
)

_FLAT, _MULTIPLIED = _drawn(2, 6, 5, 4), {n: _drawn(1, 3, 2, 4 * n) for n in (1, 3)}
_SLIDING = (2, 1), ((0, 2), (1, 1)), (1, 2)


def _apart(filters: Array) -> Array:
    """Return filters of a depthwise convolution as those of a grouped one."""
    return np.expand_dims(filters[0].transpose(2, 0, 1), -1)


DEPTHWISE = table(
    *(
        takes(
            _DEPTHWISE,
            [f32[_IMAGES], const(f32[1, 3, 3, 4 * n]), bias(4 * n), 1, 0, 2, 1, 1, 2, n, 1],
            f32[2, 4, 5, 4 * n],
            f32=1,
            f16=3,
            q8a=1,
            q8as=4,
            out=0.9,
        )
        for n in (1, 3)
    ),
    *(
        takes(
            _DEPTHWISE,
            [kind[_IMAGES], _by_channel((1, 3, 3, 4 * n), 4 * n, 3), i32[4 * n], 1, 0, 2, 1, 1, 2, n, 1],
            kind.at(0.9, kind.zero_point)[2, 4, 5, 4 * n],
            level=level,
        )
        for kind, level in ((q8a, 3), (q8as, 4))
        for n in (1, 3)
    ),
    takes(_DEPTHWISE, [f32[1, 8, 8, 3], f32[1, 3, 3, 6], f32[6], SAME, 2, 2, 2, 0], f32[1, 4, 4, 6], level=1),
    # Eleven inputs are implicit with a layout and explicit without.
    takes(
        _DEPTHWISE, [f32[1, 8, 8, 3], f32[1, 3, 3, 3], f32[3], SAME, 2, 2, 1, 0, LAST, 1, 1], f32[1, 4, 4, 3], level=3
    ),
    takes(_DEPTHWISE, [f32[1, 8, 8, 3], f32[1, 3, 3, 3], f32[3], 1, 1, 1, 1, 2, 2, 1, 0], f32[1, 4, 4, 3], level=1),
    *(
        refuses(_DEPTHWISE, [f32[1, 8, 8, 3], f32[filters], f32[filters[3]], SAME, 2, 2, n, 0], f32[()], words)
        for filters, n, words in (
            ((2, 3, 3, 3), 1, "first axis is 2, expected 1"),
            ((1, 3, 3, 6), 1, "6 channels, expected 3 x multiplier 1"),
            ((1, 3, 3, 3), 0, "depth multiplier 0"),
        )
    ),
    *(
        gives(
            _DEPTHWISE,
            [f32(_FLAT), const(f32(filters)), const(f32(np.ones(4 * n))), 1, 1, 0, 2, 1, 2, n, 0, LAST, 2, 1],
            f32(_convolved(_FLAT, _apart(filters), *_SLIDING, groups=4) + 1),
            near=_summed(_FLAT, _apart(filters), *_SLIDING, groups=4),
        )
        for n, filters in _MULTIPLIED.items()
    ),
    gives(
        _DEPTHWISE,
        [
            q8as.at(0.5)([[[[2, -4]]]]),
            per_channel(np.reshape([3, 5], (1, 1, 1, 2)), [1.0, 2.0], 3),
            const(i32([1, -1])),
            SAME,
            1,
            1,
            1,
            0,
        ],
        q8as.at(0.25, 7)([[[[7 + 14, 7 - 84]]]]),
    ),
)

_SIX, _PARTED = _drawn(2, 5, 5, 6), {n: _drawn(12, 3, 3, 6 // n) for n in (1, 2, 6)}
_STEPS = (1, 2), ((1, 0), (0, 1))

GROUPED = table(
    takes(
        _GROUPED,
        [f32[_IMAGES], const(f32[6, 2, 3, 2]), bias(6), VALID, 1, 1, 2, 1, LAST],
        f32[2, 6, 4, 6],
        **_TYPES,
        out=0.9,
    ),
    *(
        takes(
            _GROUPED,
            [kind[_IMAGES], _by_channel((6, 2, 3, 2), 6, 0), i32[6], VALID, 1, 1, 2, 1, LAST],
            kind.at(0.9, kind.zero_point)[2, 6, 4, 6],
            level=level,
        )
        for kind, level in ((q8a, 3), (q8as, 4))
    ),
    refuses(
        _GROUPED, [f32[1, 4, 4, 4], f32[6, 3, 3, 2], f32[6], SAME, 1, 1, 2, 0], f32[()], "got 8 inputs, expected 9"
    ),
    *(
        refuses(_GROUPED, [f32[1, 4, 4, channels], f32[6, 3, 3, 2], f32[6], SAME, 1, 1, n, 0, LAST], f32[()], words)
        for channels, n, words in (
            (5, 2, "expected 2 groups of 2"),
            (8, 4, "expected a multiple of 4, the number of groups"),
            (4, 0, "number of groups 0"),
        )
    ),
    *(
        gives(
            _GROUPED,
            [f32(_SIX), const(f32(filters)), const(f32(np.zeros(12))), 0, 1, 1, 0, 2, 1, n, 0, LAST],
            f32(_convolved(_SIX, filters, *_STEPS, groups=n)),
            near=_summed(_SIX, filters, *_STEPS, groups=n),
        )
        for n, filters in _PARTED.items()
    ),
)

_SMALL, _SPREAD = _drawn(2, 3, 4, 3), _drawn(2, 3, 2, 3)
_TWO = np.array([1, -1])
"""A bias of two channels."""
_TENSORS = [f32(_SMALL), const(f32(_SPREAD)), const(f32(_TWO))]
_NEAR = rounding(_SPREAD[0].size + 1, _transposed(np.abs(_SMALL), np.abs(_SPREAD), (1, 1), ((0, 0), (0, 0))) + 1)
_OPEN = [f32[1, 2, 3, 1], f32[2, 3, 3, 1], f32[2]]


def _far(shape: Dimensions) -> Array:
    """Return a transposed convolution with strides of 4: elements that no filter reaches are the bias."""
    sums: Array = np.tile(_TWO.astype(np.float64), (*shape[:3], 1))
    sums[:, :11, :14] += _transposed(_SMALL, _SPREAD, (4, 4), ((0, 0), (0, 0)))[:, :11, :14]
    return sums


_COUNTED, _KERNEL = np.arange(8).reshape(1, 2, 2, 2), np.arange(16).reshape(2, 2, 2, 2)

TRANSPOSED = table(
    *(
        takes(
            _TRANSPOSED,
            [f32[_IMAGES], const(f32[5, 3, 4, 4]), bias(5), *paddings, 2, 3, 1, LAST],
            f32[2, *size, 5],
            **_TYPES,
            out=0.9,
        )
        for paddings, size in (((0, 0, 0, 0), (21, 14)), ((1, 0, 1, 2), (18, 13)))
    ),
    *(
        takes(
            _TRANSPOSED,
            [kind[_IMAGES], _by_channel((5, 3, 4, 4), 5, 0), i32[5], *paddings, 2, 3, 1, LAST],
            kind.at(0.9, kind.zero_point)[2, *size, 5],
            level=level,
        )
        for kind, level in ((q8a, 3), (q8as, 4))
        for paddings, size in (((0, 0, 0, 0), (21, 14)), ((1, 0, 1, 2), (18, 13)))
    ),
    *(
        takes(
            _TRANSPOSED,
            [f32[_IMAGES], const(f32[5, 2, 2, 4]), bias(5), [2, *size, 5], SAME, 2, 2, 0, False],
            f32[2, *size, 5],
            level=3,
        )
        for size in ((13, 11), (14, 12))
    ),
    # The explicit form yields the smallest output, the implicit one what is asked for.
    takes(_TRANSPOSED, [*_OPEN, 1, 0, 0, 1, 2, 2, 0, LAST], f32[1, 4, 6, 2], level=3),
    *(
        takes(_TRANSPOSED, [*_OPEN, shape, scheme, 2, 2, 0, False], f32[tuple(shape)], level=3, declined=declined)
        for shape, scheme, declined in (
            ([1, 3, 5, 2], SAME, ""),
            ([1, 4, 6, 2], SAME, ""),
            ([1, 5, 7, 2], VALID, ""),
            ([1, 6, 8, 2], VALID, ""),
        )
    ),
    takes(
        _TRANSPOSED,
        [f32[1, 1, 2, 3], *_OPEN[1:], [1, 2, 4, 6], SAME, 2, 2, 0, True],
        f32[1, 2, 4, 6],
        level=3,
    ),
    takes(_TRANSPOSED, [f32[0, 2, 0, 1], *_OPEN[1:], 0, 0, 0, 0, 2, 2, 0, False], f32[0, 5, 0, 2], level=3),
    waits(_TRANSPOSED, [*_OPEN, i32[4], SAME, 2, 2, 0, False], f32[()]),
    *(
        refuses(_TRANSPOSED, [*_OPEN, shape, scheme, 2, 2, 0, False], f32[()], words)
        for shape, scheme, words in (
            ([1, 5, 6, 2], SAME, "an output of"),
            ([1, 4, 7, 2], VALID, "an output of"),
            ([1, 0, 6, 2], SAME, "an output of"),
            ([2, 4, 6, 2], SAME, "output shape"),
            ([1, 4, 6, 1], SAME, "output shape"),
        )
    ),
    gives(
        _TRANSPOSED,
        [*_TENSORS, 1, 0, 0, 2, 1, 2, 0, LAST],
        f32(_transposed(_SMALL, _SPREAD, (2, 1), ((0, 2), (1, 0))) + _TWO),
        near=_NEAR,
    ),
    *(
        gives(_TRANSPOSED, [*_TENSORS, shape, scheme, 4, 4, 0, False], f32(_far(tuple(shape))), near=_NEAR)
        for shape, scheme in (([2, 12, 16, 2], SAME), ([2, 14, 17, 2], VALID))
    ),
    gives(
        _TRANSPOSED,
        [
            q8a.at(1, 4)(_COUNTED),
            const(q8a.at(1, 8)(_KERNEL)),
            const(i32.at(1)([0, 10])),
            0,
            0,
            0,
            0,
            1,
            1,
            0,
            LAST,
        ],
        q8a.at(1, 100).about(_transposed(_COUNTED - 4, _KERNEL - 8, (1, 1), ((0, 0), (0, 0))) + 5 - 5 * _TWO),
    ),
    gives(
        _TRANSPOSED,
        [f32(np.zeros((0, 3, 4, 3))), *_TENSORS[1:], [0, 6, 8, 2], SAME, 2, 2, 0, False],
        f32(np.zeros((0, 6, 8, 2))),
    ),
)

ROWS = [*CONVOLVED, *DEPTHWISE, *GROUPED, *TRANSPOSED]
