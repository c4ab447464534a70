"""MaxPool, AveragePool, LpPool, their global forms, and ReduceMean.

The HAL's averages keep the input's scale. If a model needs another scale, an average of integers becomes a depthwise
convolution with equal weights.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import filled
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.ops._weights import bias_of
from nnhal_frontends.onnx.ops._window import (
    ImageWindow,
    WindowAxis,
    finish_image,
    image,
    require_images,
    window_of,
)
from nnhal_frontends.onnx.ops.reduction import reduced_axes
from nnhal_frontends.onnx.qdq import QuantizedForm
from nnhal_frontends.weights import WeightsOperand

_NCHW = True
_IMAGE_AXES = (2, 3)


def max_pool(b: NodeBuilder) -> None:
    """The maximum of each window, without its padding."""
    if len(b.node.outputs) > 1 and b.used(1):
        raise b.node.unsupported("the indices of the maxima are read", "the maxima alone")
    _pool(b, OperationType.MAX_POOL_2D, _window(b), b.input(0))


def average_pool(b: NodeBuilder) -> None:
    """The mean of each window, without its padding unless the model counts it as zeros."""
    window = _window(b)
    if b.quantization(0) is not None and not _keeps_scale(b):
        _average(b, window.without_idle_strides(b.shape(0)))
        return
    source = b.input(0)
    if b.attribute("count_include_pad", 0) and window.padded:
        window, source = _padded_before(b, window, source)
    _pool(b, OperationType.AVERAGE_POOL_2D, window, source)


def global_average_pool(b: NodeBuilder) -> None:
    """The mean of each image, channel by channel."""
    require_images(b)
    if b.quantization(0) is not None and not _keeps_scale(b):
        _average(b, _whole_image(b))
    else:
        axes = list(range(2, len(b.shape(0))))
        b.finish(OperationType.MEAN, [b.input(0), b.vector(axes), b.int32(1)])


def global_max_pool(b: NodeBuilder) -> None:
    """The maximum of each image, channel by channel."""
    axes = list(range(2, len(b.shape(0))))
    b.finish(OperationType.REDUCE_MAX, [b.input(0), b.vector(axes), b.boolean(True)])


def lp_pool(b: NodeBuilder) -> None:
    """The root of the sum of squares: the HAL's root of their mean, times the root of their number."""
    _require_squares(b)
    window = _window(b)
    if window.padded or window.height.end or window.width.end:
        raise b.node.unsupported("a border of padding, which the HAL leaves out of the mean", "no padding")
    inputs = [*window.paddings(b), *window.strides(b), *window.sizes(b), b.int32(0), b.boolean(_NCHW)]
    roots = b.apply(OperationType.L2_POOL_2D, [image(b, b.input(0), b.shape(0)), *inputs])
    count = filled(b, sqrt(window.height.size * window.width.size))
    finish_image(b, OperationType.MUL, [roots, count, b.int32(0)])


def global_lp_pool(b: NodeBuilder) -> None:
    """The root of the sum of squares of each image, channel by channel."""
    _require_squares(b)
    axes = b.vector(list(range(2, len(b.shape(0)))))
    squares = b.apply(OperationType.MUL, [b.input(0), b.input(0), b.int32(0)])
    b.finish(OperationType.SQRT, [b.apply(OperationType.REDUCE_SUM, [squares, axes, b.boolean(True)])])


def reduce_mean(b: NodeBuilder) -> None:
    """The mean along axes; along all if none are given."""
    axes = reduced_axes(b)
    if axes is None:
        b.finish_reshape(b.input(0))
        return
    if b.quantization(0) is not None and not _keeps_scale(b):
        _average(b, _whole_image(b))
        return
    b.finish(OperationType.MEAN, [b.input(0), b.vector(axes), b.int32(b.attribute("keepdims", 1))])


def _require_squares(b: NodeBuilder) -> None:
    power = b.attribute("p", 2)
    if power != 2:
        raise b.node.unsupported(f"p {power}", "p 2")


def _window(b: NodeBuilder) -> ImageWindow:
    require_images(b)
    window = window_of(b, b.attribute("kernel_shape", []))
    if window.dilated:
        raise b.node.unsupported("a window with dilation", "windows without gaps")
    return window


def _whole_image(b: NodeBuilder) -> ImageWindow:
    *_, height, width = b.shape(0)
    return ImageWindow(WindowAxis(height if len(b.shape(0)) == 4 else 1), WindowAxis(width))


def _pool(b: NodeBuilder, code: OperationType, window: ImageWindow, source: int) -> None:
    inputs = [*window.paddings(b), *window.strides(b), *window.sizes(b), b.activation(), b.boolean(_NCHW)]
    finish_image(b, code, [image(b, source, b.operand(source).dimensions), *inputs])


def _padded_before(b: NodeBuilder, window: ImageWindow, source: int) -> tuple[ImageWindow, int]:
    """Pad an input with zeros; return the window over it, and the padded operand."""
    axes = (window.height, window.width)
    border = [(axis.before, axis.after) for axis in axes][-(len(b.shape(0)) - 2) :]
    paddings = b.add_constant(OperandType.TENSOR_INT32, np.array([(0, 0), (0, 0), *border]))
    inside = [WindowAxis(axis.size, axis.stride, overhang=max(0, axis.overhang)) for axis in axes]
    return ImageWindow(*inside), b.apply(OperationType.PAD, [source, paddings])


def _average(b: NodeBuilder, window: ImageWindow) -> None:
    """Finish with quantised means in another scale than the input's."""
    shape, source = b.shape(0), b.quantization(0)
    if source is None:
        raise TypeError("only quantised means may need another scale")
    channels, height, width = shape[1], window.height.size, window.width.size
    b.reserve((1, height, width, channels), source.element_type)
    ones = np.ones((1, height, width, channels), source.element_type)
    scale = float(np.float32(1 / (height * width)))
    weights = WeightsOperand(b.add_constant(OPERAND_TYPES[source.element_type], ones, scale=scale), (scale,))
    inputs = [image(b, b.input(0), shape), weights.operand, bias_of(b, None, channels, weights)]
    inputs += [*window.paddings(b), *window.strides(b), b.int32(1), b.activation(), b.boolean(_NCHW)]
    if len(b.output_shape()) == 4:
        b.finish(OperationType.DEPTHWISE_CONV_2D, inputs)
    else:
        b.finish_reshape(b.apply(OperationType.DEPTHWISE_CONV_2D, inputs, like=b.result()))


def _keeps_scale(b: NodeBuilder) -> bool:
    return b.quantization(0) == b.graph.quantization.get(b.node.outputs[0])


def _quantized_average(form: QuantizedForm) -> bool:
    """Return whether the result has the input's scale, or all windows have the same divisor."""
    if not form.quant8(0):
        return False
    attributes = form.node.attributes
    if form.inputs[0] == form.output:
        return True
    same_divisor = attributes.get("count_include_pad", 0) or not any(attributes.get("pads", ()))
    plain = attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID") and not attributes.get("ceil_mode", 0)
    return bool(same_divisor and plain and _known_channels(form))


def _quantized_global_average(form: QuantizedForm) -> bool:
    shape = form.graph.shape(form.node.inputs[0])
    if not form.quant8(0) or shape is None:
        return False
    return form.inputs[0] == form.output or (len(shape) in (3, 4) and 0 not in shape[1:])


def _quantized_mean(form: QuantizedForm) -> bool:
    """Return whether the result has the input's scale, or the means are over whole images."""
    if not form.quant8(0):
        return False
    if form.inputs[0] == form.output:
        return True
    axes = form.node.attributes.get("axes", form.constant(1))
    shape = form.graph.shape(form.node.inputs[0])
    if axes is None or shape is None or len(shape) != 4 or 0 in shape[1:]:
        return False
    return sorted(int(axis) % 4 for axis in axes) == list(_IMAGE_AXES)


def _known_channels(form: QuantizedForm) -> bool:
    shape = form.graph.shape(form.node.inputs[0])
    return shape is not None and len(shape) in (3, 4) and shape[1] != 0


MAX_POOL = Converter(max_pool)
AVERAGE_POOL = Converter(average_pool, _quantized_average)
GLOBAL_MAX_POOL = Converter(global_max_pool, lambda form: form.quant8(0) and form.inputs[0] == form.output)
LP_POOL = Converter(lp_pool)
GLOBAL_LP_POOL = Converter(global_lp_pool)
GLOBAL_AVERAGE_POOL = Converter(global_average_pool, _quantized_global_average)
REDUCE_MEAN = Converter(reduce_mean, _quantized_mean)
