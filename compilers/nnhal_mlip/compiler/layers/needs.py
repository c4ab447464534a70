"""Map from a part of a layer's output to the part of its inputs that it reads."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox
from nnhal_mlip.compiler.layers.tile_layers import TileLayer
from nnhal_mlip.program.program import ELEMENT_KINDS, TaskKind


class WindowSpan(NamedTuple):
    """Elements that windows see along an axis."""

    start: int
    stop: int
    before: int
    """Elements of padding before the start; negative if windows begin behind it."""
    after: int


def window_span(
    start: int, stop: int, extent: int, kernel: int, stride: int, dilation: int, padding: int
) -> WindowSpan:
    """Return what the windows of the outputs from ``start`` to before ``stop`` see of an axis; at least one element."""
    low = start * stride - padding
    high = (stop - 1) * stride - padding + (kernel - 1) * dilation + 1
    first = min(max(low, 0), extent - 1)
    last = max(min(high, extent), first + 1)
    return WindowSpan(first, last, first - low, high - last)


def rows_and_columns(layer: TileLayer, box: TensorBox, extents: Extents) -> tuple[WindowSpan, WindowSpan]:
    """Return what a layer sees of the height and the width of an input for a part of its output.

    Args:
        layer: A layer with a window.
        box: Of the output, in the layer's order of axes.
        extents: Of the input, in the layer's order of axes.
    """
    window = layer.window
    rows, columns = (
        window_span(
            box.starts[axis],
            box.stops[axis],
            extents[axis],
            window.kernel[axis - 1],
            window.strides[axis - 1],
            window.dilation[axis - 1],
            window.padding[axis - 1],
        )
        for axis in (1, 2)
    )
    return rows, columns


def needed(layer: TileLayer, box: TensorBox, extents: Extents, index: int) -> TensorBox:
    """Return which part of an input a layer reads for a part of its output; all in the layer's order of axes.

    ``extents`` are those of the input with the number ``index``.
    """
    if layer.task is TaskKind.MATMUL:
        rows = 3 if index else 2  # the rows of the second input are the columns of the output
        first = (box.starts[0], box.starts[1], box.starts[rows], 0)
        return TensorBox(first, (box.stops[0], box.stops[1], box.stops[rows], extents[3]))
    if layer.task in ELEMENT_KINDS:
        starts = [0 if extent == 1 else start for start, extent in zip(box.starts, extents, strict=True)]
        stops = [1 if extent == 1 else stop for stop, extent in zip(box.stops, extents, strict=True)]
        return TensorBox((starts[0], starts[1], starts[2], starts[3]), (stops[0], stops[1], stops[2], stops[3]))
    seen_rows, columns = rows_and_columns(layer, box, extents)
    channel, channel_end = box.starts[3], box.stops[3]
    if layer.task is TaskKind.CONVOLUTION:
        outputs, inputs = layer.extents[3] // layer.groups, extents[3] // layer.groups
        channel, channel_end = channel // outputs * inputs, -(-channel_end // outputs) * inputs
    start = (box.starts[0], seen_rows.start, columns.start, channel)
    return TensorBox(start, (box.stops[0], seen_rows.stop, columns.stop, channel_end))
