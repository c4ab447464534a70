"""The dependency of an output on an input along one axis, and its kinds.

What an operator reads from its padding is no element of the input, so an interval may be empty. ``length`` is the
input's extent along the axis, in elements. ``needs`` is exact for all kinds here: it returns the least interval with
all elements that are needed, and ``(0, 0)`` if none is. A plan asks for 10^5 intervals, so these are plain integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from nnhal_cascade.geometry.box import Interval


class AffineRow(NamedTuple):
    """The dependency as the RFC's matrices have it: ``length = coefficient * output length + constant``.

    ``offset`` is where the input's first stripe starts. Nothing is cut off at the borders of the input.
    """

    coefficient: float
    constant: float
    offset: int


class AxisAccess(Protocol):
    """The dependency along one axis. Equal dependencies have equal hashes, since answers about them are kept."""

    def __hash__(self) -> int: ...

    def needs(self, wanted: Interval) -> Interval:
        """Return the interval of the input, within its borders, that an interval of the output depends on."""
        ...

    def affine(self) -> AffineRow:
        """Return the row of the propagator's matrix, and its offset."""
        ...


EMPTY = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class OneToOne:
    """Element n of the output depends on element n of the input: elementwise operations, and channels of a pooling."""

    length: int

    def needs(self, wanted: Interval) -> Interval:
        """Return the same interval."""
        if 0 <= wanted.start < wanted.stop <= self.length:
            return wanted
        start, stop = max(0, wanted.start), min(self.length, wanted.stop)
        return Interval(start, stop) if start < stop else EMPTY

    def affine(self) -> AffineRow:
        """Return the identity."""
        return AffineRow(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Everything:
    """All of the output depends on all of the input: sums over the axis, and operations that nobody looks into."""

    length: int

    def needs(self, wanted: Interval) -> Interval:
        """Return the whole axis."""
        return Interval(0, self.length) if wanted.start < wanted.stop else EMPTY

    def affine(self) -> AffineRow:
        """Return a constant."""
        return AffineRow(0, self.length, 0)


@dataclass(frozen=True, slots=True)
class Single:
    """All of the output depends on element 0, the only one: an operand that is broadcast along the axis."""

    def needs(self, wanted: Interval) -> Interval:
        """Return the first element."""
        return Interval(0, 1) if wanted.start < wanted.stop else EMPTY

    def affine(self) -> AffineRow:
        """Return the constant 1."""
        return AffineRow(0, 1, 0)


@dataclass(frozen=True, slots=True)
class Shifted:
    """The input is a part of the output, or the output a part of the input.

    An operand of a concatenation has the ``offset`` at which it starts in the output, the input of a padding what is
    padded before it. A slice has a negative one: the output's element 0 is the input's element ``-offset``.
    """

    length: int
    offset: int

    def needs(self, wanted: Interval) -> Interval:
        """Return what of the interval is the input's."""
        start, stop = max(0, wanted.start - self.offset), min(self.length, wanted.stop - self.offset)
        return Interval(start, stop) if start < stop else EMPTY

    def affine(self) -> AffineRow:
        """Return the identity with an offset."""
        return AffineRow(1, 0, -self.offset)


@dataclass(frozen=True, slots=True)
class Windowed:
    """A window that slides over the input: convolutions, poolings, and resizing to a multiple by nearest neighbour.

    Output n sees the elements ``n * stride - before + tap * dilation`` of the upscaled input, for each tap of the
    kernel. In the upscaled input each element is there ``upscale`` times, one behind the other. A slice with a stride
    has a negative ``before``.
    """

    length: int
    kernel: int = 1
    """Taps."""
    stride: int = 1
    dilation: int = 1
    before: int = 0
    """Elements of padding before the first, in the upscaled input."""
    upscale: int = 1

    def needs(self, wanted: Interval) -> Interval:
        """Return the elements from the first tap to the last that lie in the input."""
        start, stop = wanted
        if start >= stop:
            return EMPTY
        first = start * self.stride - self.before
        last = (stop - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation
        limit = self.length * self.upscale - 1
        if first < 0:
            first = self._inside(-first, stop - start)
        if last > limit:
            last = limit - self._inside(last - limit, stop - start)
        if first > last:
            return EMPTY
        if self.upscale != 1:
            return Interval(first // self.upscale, last // self.upscale + 1)
        return Interval(first, last + 1)

    def affine(self) -> AffineRow:
        """Return ``window_row`` of the window."""
        return window_row(self.kernel, self.stride, self.dilation, self.before, self.upscale)

    def _inside(self, overhang: int, windows: int) -> int:
        """Return how far from a border the nearest tap is that lies inside of it, or a number beyond the other border.

        The outermost of the windows hangs over the border by ``overhang``. With a dilation, or with a stride that is
        longer than the kernel, the first window that reaches inside is not always the one with the nearest tap.
        """
        nearest = self.length * self.upscale
        for _ in range(windows):
            if overhang <= 0:
                return min(nearest, -overhang)
            outside = -(-overhang // self.dilation)
            if outside < self.kernel:
                nearest = min(nearest, outside * self.dilation - overhang)
                if nearest == 0:
                    break
            overhang -= self.stride
        return nearest


@dataclass(frozen=True, slots=True)
class ZeroInserted:
    """A transpose convolution: element n of the input adds to as many outputs as the kernel has taps.

    The first of them is ``n * stride - before``. It is a convolution of the input with ``stride - 1`` zeros between its
    elements, and zeros need nothing.
    """

    length: int
    kernel: int
    stride: int
    before: int = 0
    """Outputs that are cut off before the first."""

    def needs(self, wanted: Interval) -> Interval:
        """Return the elements that add to one of the outputs."""
        start, stop = wanted
        first = max(0, -((self.kernel - 1 - start - self.before) // self.stride))
        end = min(self.length, (stop - 1 + self.before) // self.stride + 1)
        return Interval(first, end) if start < stop and first < end else EMPTY

    def affine(self) -> AffineRow:
        """Return ``zero_inserted_row`` of the kernel."""
        return zero_inserted_row(self.kernel, self.stride, self.before)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Channels in groups: each ``outputs`` channels of the output depend on ``inputs`` channels of the input.

    A depthwise convolution with a multiplier is groups of one input.
    """

    length: int
    inputs: int
    outputs: int

    def needs(self, wanted: Interval) -> Interval:
        """Return the channels of all groups that the interval touches."""
        start, stop = wanted
        first = max(0, start // self.outputs * self.inputs)
        end = min(self.length, ((stop - 1) // self.outputs + 1) * self.inputs)
        return Interval(first, end) if start < stop and first < end else EMPTY

    def affine(self) -> AffineRow:
        """Return the ratio. Groups of several inputs and several outputs are not affine, and need everything."""
        if self.inputs == 1:
            return window_row(upscale=self.outputs)
        return AffineRow(self.inputs, 0, 0) if self.outputs == 1 else AffineRow(0, self.length, 0)


def window_row(kernel: int = 1, stride: int = 1, dilation: int = 1, before: int = 0, upscale: int = 1) -> AffineRow:
    """Return the row of a ``Windowed``.

    With an upscale this is for all phases: outputs may start at the first or at the last copy of an element, so a
    stripe of 2 rows of twice the size may need 2 rows, and not 1. The published matrices know no upscale.
    """
    # If the padding is no multiple of the upscale, a stripe starts up to that much after its row's offset.
    phase = -before % upscale
    span = (kernel - 1) * dilation + 1
    return AffineRow(stride / upscale, (span - stride - 1 + phase) / upscale + 1, -before // upscale)


def zero_inserted_row(kernel: int, stride: int, before: int = 0) -> AffineRow:
    """Return the row of a ``ZeroInserted``, for stripes that start anywhere between two elements of the input.

    Outputs that start at a multiple of the stride need at most ``ceil((outputs + kernel - 1) / stride)`` elements.
    """
    offset = -((kernel - 1 - before) // stride)
    return AffineRow(1 / stride, (before - 1) / stride - offset + 1, offset)


@dataclass(frozen=True, slots=True)
class Resized:
    """Each output is taken from a place in the input, as RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR compute it.

    Both elements beside a place count as needed, even if the place is exactly one of them.
    """

    length: int
    outputs: int
    nearest: bool = False
    """True if an output is one element, and not a mean of two."""
    align_corners: bool = False
    half_pixel_centers: bool = False

    def needs(self, wanted: Interval) -> Interval:
        """Return the elements from the first place to the last."""
        start, stop = max(0, wanted.start), min(self.outputs, wanted.stop)
        if start >= stop:
            return EMPTY
        first, last = _taps(self)
        return Interval(first[start], last[stop - 1] + 1)

    def affine(self) -> AffineRow:
        """Return the ratio, with a constant and an offset that suffice for each stripe."""
        scale = _scale(self)
        first, last = _taps(self)
        starts = [n * scale.numerator // scale.denominator for n in range(self.outputs)]
        offset = min(tap - start for tap, start in zip(first, starts, strict=True))
        beyond = max(tap + 1 - (n + 1) * scale for n, tap in enumerate(last))
        return AffineRow(float(scale), float(beyond - offset), offset)


def _scale(axis: Resized) -> Fraction:
    if axis.align_corners and axis.outputs > 1:
        return Fraction(axis.length - 1, axis.outputs - 1)
    return Fraction(axis.length, axis.outputs)


@lru_cache(maxsize=1024)
def _taps(axis: Resized) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and the last element that each output is taken from.

    The operations are defined with float32, so rounding decides on which side of an element a place lies.
    """
    half = np.float32(0.5 if axis.half_pixel_centers else 0)
    scale = _scale(axis)
    factor = np.float32(scale.numerator) / np.float32(scale.denominator)
    places = (np.arange(axis.outputs, dtype=np.float32) + half) * factor
    if axis.nearest:
        rounded = np.floor(places + np.float32(0.5 if axis.align_corners else 0))
        first = last = np.minimum(rounded.astype(np.int64), axis.length - 1)
    else:
        first = np.floor(np.clip(places - half, 0, axis.length - 1)).astype(np.int64)
        last = np.minimum(first + 1, axis.length - 1)
    return tuple(first.tolist()), tuple(last.tolist())
