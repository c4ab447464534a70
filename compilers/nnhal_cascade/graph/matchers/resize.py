"""RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput
from nnhal_cascade.geometry.accesses import AxisAccess, OneToOne, Resized
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartKind
from nnhal_cascade.graph.matchers.match import Match, Reading, require_channels_last, shape_of

_FACTOR = 2
"""The NPU repeats each row and column on its way in: twice the size in one pass."""


def match_nearest(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match RESIZE_NEAREST_NEIGHBOR: copies of repeated rows and columns."""
    return (_resize(op, outputs[0], nearest=True, side=1),)


def match_bilinear(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match RESIZE_BILINEAR: averages of two by two repeated rows and columns."""
    return (_resize(op, outputs[0], nearest=False, side=2),)


def _resize(op: OperationContext, output: Shape, nearest: bool, side: int) -> Match:
    given = shape_of(op, ResizeInput.INPUT)
    require_channels_last(op, op.boolean(ResizeInput.LAYOUT))
    corners, centres = op.boolean(ResizeInput.ALIGN_CORNERS), op.boolean(ResizeInput.HALF_PIXEL_CENTERS)

    def access(length: int, resized: int) -> AxisAccess:
        return Resized(length, resized, nearest, corners, centres)

    reading = Reading(
        ResizeInput.INPUT,
        access(given.rows, output.rows),
        access(given.columns, output.columns),
        OneToOne(given.channels),
    )
    passes = _passes(given, output)
    kernel = Kernel(side, side, upscale=_FACTOR) if output != given else Kernel()
    return Match(PartKind.POOLING, (reading,), kernel, passes=passes)


def _passes(given: Shape, output: Shape) -> int:
    """The number of times that the larger ratio of the two axes takes to double."""
    ratio = max(-(-output.rows // given.rows), -(-output.columns // given.columns))
    return max(1, (ratio - 1).bit_length())
