"""8-bit convolutions of images with few channels, such as the first of a network.

ONNX Runtime's integer kernels are fast if an input has a multiple of four channels. If it has not, several neighbouring
pixels of a row become one pixel with all their channels, which moves nothing in memory, and the filter becomes one for
each output pixel of those. It has more weights, since windows do not begin where pixels do, but results are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.windows import Window
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.layout import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Layout
from nnhal_devices.cpu_acc.lowering._weights import quantized_bias, quantized_filter
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_GRAIN = 4
_LARGEST_GROWTH = 3
"""With more products than so many times the original ones, nothing is gained."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Folding of the pixels of a row."""

    pixels: int
    """Input pixels that become one."""
    outputs: int
    """Output pixels that become one."""
    before: int
    """Folded pixels of a window before the one where its outputs are."""
    size: int
    """Folded pixels of a window."""


def fold_of(to: Emitter, window: Window) -> Fold | None:
    """Return how to fold a convolution, if that is possible and gains."""
    given, width = to.op.dimensions(INPUT), window.width
    constant = all(to.graph.is_constant(to.inputs[position]) for position in (FILTER, BIAS))
    if to.op.main_type() not in QUANTIZED or window.channels_first or not constant or 0 in given:
        return None
    if to.graph.home(to.inputs[INPUT]) is Layout.MOVED or given[3] % _GRAIN == 0 or width.dilation != 1:
        return None
    pixels = lcm(width.stride, _GRAIN // gcd(given[3], _GRAIN))
    made = (given[2] + width.before + width.after - width.size) // width.stride + 1
    if given[2] % pixels or made * width.stride != given[2]:
        return None
    last = pixels - width.stride - width.before + width.size - 1
    before = -(-width.before // pixels)
    size = before + 1 + max(0, last // pixels)
    fold = Fold(pixels, pixels // width.stride, before, size)
    return fold if size * pixels <= _LARGEST_GROWTH * width.size else None


def convolve_folded(to: Emitter, window: Window, fold: Fold) -> None:
    """Add a convolution of folded pixels."""
    graph, height = to.graph, window.height
    images, rows, columns, channels = to.op.dimensions(INPUT)
    made = len(to.op.value(FILTER))
    shape = graph.integers([images, rows, columns // fold.pixels, fold.pixels * channels])
    folded = graph.add("Reshape", to.kept(INPUT), shape)
    given = to.dequantize(INPUT, graph.add("Transpose", folded, perm=TO_CHANNELS_FIRST))
    result = graph.add(
        "Conv",
        given,
        quantized_filter(to, FILTER, _filter(to, window, fold), fold.outputs),
        quantized_bias(to, BIAS, INPUT, FILTER, fold.outputs),
        strides=[height.stride, 1],
        pads=[height.before, fold.before, height.after, fold.size - 1 - fold.before],
        dilations=[height.dilation, 1],
    )
    to.keep_real(result, Layout.MOVED, window.activation)
    moved = graph.add("Transpose", to.graph.kept(to.outputs[0], Layout.MOVED), perm=TO_CHANNELS_LAST)
    high = (rows + height.before + height.after - height.reach) // height.stride + 1
    shape = graph.integers([images, high, columns // window.width.stride, made])
    to.keep(graph.add("Reshape", moved, shape))


def _filter(to: Emitter, window: Window, fold: Fold) -> Array:
    """The filter [output pixels * output channels, pixels * input channels, height, folded width]."""
    values, width = to.op.value(FILTER), window.width
    made, height, _, channels = values.shape
    folded = np.full(
        (fold.outputs, made, height, fold.size, fold.pixels, channels), to.op.inputs[FILTER].zero_point, values.dtype
    )
    for output in range(fold.outputs):
        for tap in range(width.size):
            place, pixel = divmod(output * width.stride - width.before + tap, fold.pixels)
            folded[output, :, :, place + fold.before, pixel] = values[:, :, tap]
    joined = folded.reshape(fold.outputs * made, height, fold.size, fold.pixels * channels)
    return np.transpose(joined, TO_CHANNELS_FIRST)
