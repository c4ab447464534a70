"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV."""

from __future__ import annotations

from tflite import Conv2DOptions, DepthwiseConv2DOptions, Padding, TransposeConvOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.graph import OperatorOptions
from nnhal_frontends.tflite.ops._weights import bias_of, weights_of

INPUT = 0
FILTER = 1
BIAS = 2
_SCHEMES = {Padding.SAME: 1, Padding.VALID: 2}
_NHWC = False


def conv_2d(b: OperatorBuilder) -> None:
    """CONV_2D, or GROUPED_CONV_2D if the filter [outC, h, w, inC / groups] has groups."""
    options = b.options(Conv2DOptions)
    weights = weights_of(b, INPUT, FILTER)
    channels, _, _, depth = _filter(b, weights.operand)
    given = _depth(b)
    groups = given // depth if depth and given > depth else 1
    inputs = [b.input(INPUT), weights.operand, bias_of(b, INPUT, BIAS, weights, channels), *_window(b, options)]
    activation, dilations = b.activation(options.FusedActivationFunction), _dilations(b, options)
    if groups == 1:
        b.finish(OperationType.CONV_2D, [*inputs, activation, *dilations])
    elif len(dilations) > 1:
        raise b.unsupported(f"{groups} groups with dilation", "dilation with one group, or one for each channel")
    else:
        b.finish(OperationType.GROUPED_CONV_2D, [*inputs, b.int32(groups), activation, b.boolean(_NHWC)])


def depthwise_conv_2d(b: OperatorBuilder) -> None:
    """DEPTHWISE_CONV_2D. The depth multiplier follows from the filter [1, h, w, outC]; newer files leave it out."""
    options = b.options(DepthwiseConv2DOptions)
    weights = weights_of(b, INPUT, FILTER)
    *_, channels = _filter(b, weights.operand)
    inputs = [b.input(INPUT), weights.operand, bias_of(b, INPUT, BIAS, weights, channels), *_window(b, options)]
    activation, dilations = b.activation(options.FusedActivationFunction), _dilations(b, options)
    b.finish(OperationType.DEPTHWISE_CONV_2D, [*inputs, b.int32(channels // _depth(b)), activation, *dilations])


def transpose_conv(b: OperatorBuilder) -> None:
    """TRANSPOSE_CONV_2D. TFLite puts the output's shape first, and the images after the filter."""
    output_shape, kernel, images, bias = range(4)
    options = b.options(TransposeConvOptions)
    weights = weights_of(b, images, kernel)
    channels, *_ = _filter(b, weights.operand)
    inputs = [b.input(images), weights.operand, bias_of(b, images, bias, weights, channels), b.input(output_shape)]
    activation = b.activation(options.FusedActivationFunction)
    b.finish(OperationType.TRANSPOSE_CONV_2D, [*inputs, *_window(b, options), activation, b.boolean(_NHWC)])


def padding_scheme(b: OperatorBuilder, code: int) -> int:
    """Add a padding scheme as an operation's input."""
    if code not in _SCHEMES:
        raise b.unsupported(f"padding {code}", "SAME, VALID")
    return b.int32(_SCHEMES[code])


def _filter(b: OperatorBuilder, operand: int) -> tuple[int, int, int, int]:
    dimensions = b.operand(operand).dimensions
    if len(dimensions) != 4:
        raise b.unsupported(f"a filter of rank {len(dimensions)}", "rank 4")
    return dimensions


def _depth(b: OperatorBuilder) -> int:
    """Return the channels of images, which tell the groups of a filter."""
    depth = b.shape(INPUT)[-1]
    if not depth:
        raise b.unsupported("images of unknown depth", "a depth that is known, which tells the filter's groups")
    return depth


def _window(b: OperatorBuilder, options: OperatorOptions) -> list[int]:
    return [padding_scheme(b, options.Padding), b.int32(options.StrideW), b.int32(options.StrideH)]


def _dilations(b: OperatorBuilder, options: OperatorOptions) -> list[int]:
    """Return layout and dilation, which operations of feature level 1 lack; empty without dilation."""
    width, height = options.DilationWFactor, options.DilationHFactor
    return [] if width == height == 1 else [b.boolean(_NHWC), b.int32(width), b.int32(height)]
