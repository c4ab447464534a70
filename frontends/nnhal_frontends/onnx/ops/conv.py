"""Conv as CONV_2D, DEPTHWISE_CONV_2D or GROUPED_CONV_2D."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.ops._weights import (
    bias_of,
    filter_of,
    real_constant,
    required_constant,
    takes_weights,
    transposed,
)
from nnhal_frontends.onnx.ops._window import finish_image, image, require_images, window_of
from nnhal_frontends.onnx.qdq import QuantizedForm

_NCHW = True


def convert(b: NodeBuilder) -> None:
    """Weights [outC, inC / group, h, w] are transposed to the layout of the operation that ``group`` selects."""
    require_images(b)
    weights = required_constant(b, 1, "weights")
    window = window_of(b, weights.shape[2:])
    if weights.ndim == 3:
        weights = weights[:, :, None]
    group = b.attribute("group", 1)
    depthwise = 1 < group == weights.shape[1] * group
    order, channel_dim = ((1, 2, 3, 0), 3) if depthwise else ((0, 2, 3, 1), 0)
    kernel = filter_of(b, transposed(weights, order), channel_dim)
    bias = bias_of(b, real_constant(b, 2), len(weights), kernel)
    inputs = [image(b, b.input(0), b.shape(0)), kernel.operand, bias, *window.paddings(b), *window.strides(b)]
    layout = [b.activation(), b.boolean(_NCHW)]
    if window.dilated:
        layout += window.dilations(b)
    if depthwise:
        multiplier = b.int32(len(weights) // group)
        finish_image(b, OperationType.DEPTHWISE_CONV_2D, [*inputs, multiplier, *layout])
    elif group == 1:
        finish_image(b, OperationType.CONV_2D, inputs + layout)
    elif window.dilated:
        raise b.node.unsupported(f"{group} groups with dilation", "dilation with one group, or one for each channel")
    else:
        finish_image(b, OperationType.GROUPED_CONV_2D, [*inputs, b.int32(group), *layout])


def _quantized(form: QuantizedForm) -> bool:
    return takes_weights(form, channel_axis=0)


CONV = Converter(convert, _quantized)
