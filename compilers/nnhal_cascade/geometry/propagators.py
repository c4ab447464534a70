"""The propagators of operators on tensors of [batch, height, width, channels], by the operators' parameters.

The matrices are those of the RFC's implementation, which has none for transpose convolutions and for resizing. Pairs
are (height, width), in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_cascade.geometry.access import AffineRow
from nnhal_cascade.geometry.accesses import window_row, zero_inserted_row
from nnhal_cascade.geometry.propagator import Propagator, diagonal

Pair = tuple[int, int]

SCALE_BYTES = 10
"""Bytes of an output channel's scale and bias."""
_BRICK = 16
"""Channels that lie together in NHCWB16."""
_SAME = AffineRow(1, 0, 0)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A kernel over height and width."""

    kernel: Pair
    strides: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pair = (0, 0)
    """Before the first row and the first column."""

    def rows(self) -> tuple[AffineRow, AffineRow]:
        """Return the rows of height and width."""
        height, width = zip(self.kernel, self.strides, self.dilation, self.padding, strict=True)
        return window_row(*height), window_row(*width)


def convolution(window: SlidingWindow, channels: int) -> Propagator:
    """Return that of a convolution's input with so many channels: every output needs all of them."""
    return diagonal([_SAME, *window.rows(), AffineRow(0, channels, 0)])


def depthwise(window: SlidingWindow) -> Propagator:
    """Return that of the input of a depthwise convolution, or of a pooling."""
    return diagonal([_SAME, *window.rows(), _SAME])


def transpose_convolution(kernel: Pair, strides: Pair, padding: Pair, channels: int) -> Propagator:
    """Return that of a transpose convolution's input. ``padding`` is cut off before the first row and column."""
    height, width = zip(kernel, strides, padding, strict=True)
    return diagonal([_SAME, zero_inserted_row(*height), zero_inserted_row(*width), AffineRow(0, channels, 0)])


def upscale(factor: int) -> Propagator:
    """Return that of the input of a RESIZE_NEAREST_NEIGHBOR to ``factor`` times the height and width."""
    return diagonal([_SAME, window_row(upscale=factor), window_row(upscale=factor), _SAME])


def elementwise(given: Sequence[int], output: Sequence[int]) -> Propagator:
    """Return that of an operand of the shape ``given``: where it is broadcast to ``output``, one element is needed."""
    pairs = zip(given, output, strict=True)
    return diagonal([AffineRow(0, 1, 0) if extent == 1 and wide != 1 else _SAME for extent, wide in pairs])


def opaque(given: Sequence[int], output_axes: int) -> Propagator:
    """Return that of an input of the shape ``given`` that is always needed whole: of RESHAPE, for example."""
    return Propagator(_matrix([({}, extent) for extent in given], output_axes), (0,) * len(given))


def convolution_weights(kernel: Pair, channels: int) -> Propagator:
    """Return that of weights of [output channels, height, width, input channels]."""
    return Propagator(_matrix([({3: 1}, 0), ({}, kernel[0]), ({}, kernel[1]), ({}, channels)], 4), (0,) * 4)


def depthwise_weights(kernel: Pair) -> Propagator:
    """Return that of weights of [channels, height, width, 1]."""
    return convolution_weights(kernel, 1)


def scales() -> Propagator:
    """Return that of scales and biases of [output channels, bytes]."""
    return Propagator(_matrix([({3: 1}, 0), ({}, SCALE_BYTES)], 4), (0, 0))


def nhwc_to_nhcwb16() -> Propagator:
    """Return the change of layout from stripes in NHWC to stripes in [batch, height, bricks, width, 16]."""
    return Propagator(_matrix([({0: 1}, 0), ({1: 1}, 0), ({3: 1 / _BRICK}, 0), ({2: 1}, 0), ({}, _BRICK)], 4), (0,) * 5)


def nhcwb16_to_nhwc(channels: int) -> Propagator:
    """Return the change of layout back. The last brick of the tensor is full only if 16 divides ``channels``."""
    unused = -channels % _BRICK
    return Propagator(_matrix([({0: 1}, 0), ({1: 1}, 0), ({3: 1}, 0), ({2: _BRICK}, -unused)], 5), (0,) * 4)


def _matrix(rows: Sequence[tuple[dict[int, float], int]], output_axes: int) -> tuple[tuple[float, ...], ...]:
    """Return a matrix of rows that are coefficients, by the axis of the output, and a constant."""
    filled = [(*(row.get(axis, 0) for axis in range(output_axes)), constant) for row, constant in rows]
    return (*filled, (*(0,) * output_axes, 1))
