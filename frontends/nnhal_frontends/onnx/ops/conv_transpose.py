"""ConvTranspose as TRANSPOSE_CONV_2D."""

from __future__ import annotations

from collections.abc import Sequence

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
from nnhal_frontends.onnx.ops._window import ImageWindow, WindowAxis, finish_image, image, require_images
from nnhal_frontends.onnx.qdq import QuantizedForm

_NCHW = True


def convert(b: NodeBuilder) -> None:
    """Weights [inC, outC, h, w] are transposed to [outC, h, w, inC]."""
    require_images(b)
    if b.attribute("group", 1) != 1:
        raise b.node.unsupported(f"{b.attribute('group', 1)} groups", "one group")
    weights = required_constant(b, 1, "weights")
    axes = [_axis(b, weights.shape[2:], index) for index in range(weights.ndim - 2)]
    window = ImageWindow(axes[0], axes[1]) if len(axes) > 1 else ImageWindow(WindowAxis(1), axes[0])
    if weights.ndim == 3:
        weights = weights[:, :, None]
    kernel = filter_of(b, transposed(weights, (1, 2, 3, 0)), channel_dim=0)
    bias = bias_of(b, real_constant(b, 2), weights.shape[1], kernel)
    inputs = [image(b, b.input(0), b.shape(0)), kernel.operand, bias, *window.paddings(b), *window.strides(b)]
    finish_image(b, OperationType.TRANSPOSE_CONV_2D, [*inputs, b.activation(), b.boolean(_NCHW)])


def _axis(b: NodeBuilder, kernel: Sequence[int], index: int) -> WindowAxis:
    """Return one axis of the window. Its padding is what is cut from the result."""
    count = len(kernel)
    stride = b.attribute("strides", [1] * count)[index]
    if b.attribute("dilations", [1] * count)[index] > 1:
        raise b.node.unsupported("a kernel with dilation", "kernels without gaps")
    length, extra = b.shape(0)[2 + index], b.attribute("output_padding", [0] * count)[index]
    automatic = b.attribute("auto_pad", "NOTSET")
    pads = b.attribute("pads", [0] * (2 * count)) if automatic == "NOTSET" else [0] * (2 * count)
    before, after = pads[index], pads[count + index] - extra
    asked = b.attribute("output_shape", None)
    if asked or automatic in ("SAME_UPPER", "SAME_LOWER"):
        if not length:
            raise b.node.unsupported("output_shape or auto_pad on an axis of unknown length", "fixed shapes, pads")
        wanted = asked[len(asked) - count + index] if asked else length * stride
        total = (length - 1) * stride + extra + kernel[index] - wanted
        less, more = total // 2, total - total // 2
        before, after = (less, more) if automatic == "SAME_UPPER" else (more, less)
        after -= extra
    if before < 0 or after < 0:
        raise b.node.unsupported(
            f"{-min(before, after)} elements more than its windows reach", "an output_padding of at most the pads"
        )
    return WindowAxis(kernel[index], stride, before, after)


def _quantized(form: QuantizedForm) -> bool:
    return takes_weights(form, channel_axis=1)


CONV_TRANSPOSE = Converter(convert, _quantized)
