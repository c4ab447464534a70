"""Convolutions: filters slide over images.

CONV_2D: a filter for each output channel slides over images and sums over all input channels.

DEPTHWISE_CONV_2D: every input channel has its own filters, as many as the depth multiplier.

GROUPED_CONV_2D: a convolution whose channels are divided into independent groups.

TRANSPOSE_CONV_2D: every input element adds its scaled filter to the output: the gradient of a convolution.
The window slides over the output: a convolution with that window maps the output's size to the input's. The implicit
form gives the size of the output, the explicit form yields the smallest size that fits.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature, once
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.filters import require_bias, validate_convolution
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import I32
from nnhal.operations.windows import (
    Axis,
    Forms,
    Images,
    Window,
    filter_of,
    images_of,
    layout_of,
    window_by_forms,
    windows_along,
)
from nnhal.operations.work import of_depthwise_filters, of_filters, of_transposed_filters
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, describe


class Conv2dImplicit(IntEnum):
    """The inputs of the implicit form: a scheme gives the padding."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels]."""
    BIAS = 2
    """[output channels]."""
    PADDING = 3
    STRIDE_WIDTH = 4
    STRIDE_HEIGHT = 5
    ACTIVATION = 6
    LAYOUT = 7
    DILATION_WIDTH = 8
    DILATION_HEIGHT = 9


class Conv2dExplicit(IntEnum):
    """The inputs of the explicit form: the padding is given."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels]."""
    BIAS = 2
    """[output channels]."""
    PADDING_LEFT = 3
    PADDING_RIGHT = 4
    PADDING_TOP = 5
    PADDING_BOTTOM = 6
    STRIDE_WIDTH = 7
    STRIDE_HEIGHT = 8
    ACTIVATION = 9
    LAYOUT = 10
    DILATION_WIDTH = 11
    DILATION_HEIGHT = 12


CONV_2D_FORMS = Forms(Conv2dImplicit, Conv2dExplicit)


@once
def window_of_conv_2d(op: OperationContext) -> Window:
    """Return the window of a CONV_2D. The filter is [output channels, height, width, input channels]."""
    _, height, width, _ = filter_of(op, Conv2dImplicit.FILTER)
    return window_by_forms(op, CONV_2D_FORMS, (height, width))


def validate_conv_2d(op: Signature) -> None:
    """Require images, filter and bias. Layout and dilation need feature level 3."""
    validate_convolution(op, CONV_2D_FORMS, channel_dim=0, scale_constraint=True)


def prepare_conv_2d(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    window = window_of_conv_2d(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, Conv2dImplicit.FILTER)
    if images.channels not in (0, depth):
        op.refuse(f"the filter's depth is {depth}, expected {images.channels}: the input's channels")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


CONV_2D = OperationDefinition(
    OperationType.CONV_2D, 1, validate_conv_2d, prepare_conv_2d, layout=OnImages(CONV_2D_FORMS), work=of_filters
)


class DepthwiseConv2dImplicit(IntEnum):
    """The inputs of the implicit form: a scheme gives the padding."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[1, height, width, output channels]."""
    BIAS = 2
    """[output channels]."""
    PADDING = 3
    STRIDE_WIDTH = 4
    STRIDE_HEIGHT = 5
    MULTIPLIER = 6
    """Output channels for each input channel."""
    ACTIVATION = 7
    LAYOUT = 8
    DILATION_WIDTH = 9
    DILATION_HEIGHT = 10


class DepthwiseConv2dExplicit(IntEnum):
    """The inputs of the explicit form: the padding is given."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[1, height, width, output channels]."""
    BIAS = 2
    """[output channels]."""
    PADDING_LEFT = 3
    PADDING_RIGHT = 4
    PADDING_TOP = 5
    PADDING_BOTTOM = 6
    STRIDE_WIDTH = 7
    STRIDE_HEIGHT = 8
    MULTIPLIER = 9
    """Output channels for each input channel."""
    ACTIVATION = 10
    LAYOUT = 11
    DILATION_WIDTH = 12
    DILATION_HEIGHT = 13


DEPTHWISE_CONV_2D_FORMS = Forms(DepthwiseConv2dImplicit, DepthwiseConv2dExplicit)


@once
def window_of_depthwise_conv_2d(op: OperationContext) -> Window:
    """Return the window of a DEPTHWISE_CONV_2D. The filter is [1, height, width, output channels]."""
    _, height, width, _ = filter_of(op, DepthwiseConv2dImplicit.FILTER)
    return window_by_forms(op, DEPTHWISE_CONV_2D_FORMS, (height, width))


def validate_depthwise_conv_2d(op: Signature) -> None:
    """Require images, filter and bias. Layout and dilation need feature level 3."""
    validate_convolution(op, DEPTHWISE_CONV_2D_FORMS, channel_dim=3, scale_constraint=True)


def prepare_depthwise_conv_2d(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with the channels times the depth multiplier."""
    window = window_of_depthwise_conv_2d(op)
    images = images_of(op, window.channels_first)
    first, _, _, channels = filter_of(op, DepthwiseConv2dImplicit.FILTER)
    if first != 1:
        op.refuse(f"the filter's first axis is {first}, expected 1")
    if images.channels and channels != images.channels * window.multiplier:
        op.refuse(f"the filter has {channels} channels, expected {images.channels} x multiplier {window.multiplier}")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


DEPTHWISE_CONV_2D = OperationDefinition(
    OperationType.DEPTHWISE_CONV_2D,
    1,
    validate_depthwise_conv_2d,
    prepare_depthwise_conv_2d,
    layout=OnImages(DEPTHWISE_CONV_2D_FORMS),
    work=of_depthwise_filters,
)


class GroupedConv2dImplicit(IntEnum):
    """The inputs of the implicit form: a scheme gives the padding."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels / groups]."""
    BIAS = 2
    """[output channels]."""
    PADDING = 3
    STRIDE_WIDTH = 4
    STRIDE_HEIGHT = 5
    GROUPS = 6
    """A divisor of input and output channels."""
    ACTIVATION = 7
    LAYOUT = 8


class GroupedConv2dExplicit(IntEnum):
    """The inputs of the explicit form: the padding is given."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels / groups]."""
    BIAS = 2
    """[output channels]."""
    PADDING_LEFT = 3
    PADDING_RIGHT = 4
    PADDING_TOP = 5
    PADDING_BOTTOM = 6
    STRIDE_WIDTH = 7
    STRIDE_HEIGHT = 8
    GROUPS = 9
    """A divisor of input and output channels."""
    ACTIVATION = 10
    LAYOUT = 11


GROUPED_CONV_2D_FORMS = Forms(GroupedConv2dImplicit, GroupedConv2dExplicit, layout_required=True)


@once
def window_of_grouped_conv_2d(op: OperationContext) -> Window:
    """Return the window of a GROUPED_CONV_2D. The filter is [output channels, height, width, channels of a group]."""
    _, height, width, _ = filter_of(op, GroupedConv2dImplicit.FILTER)
    return window_by_forms(op, GROUPED_CONV_2D_FORMS, (height, width))


def validate_grouped_conv_2d(op: Signature) -> None:
    """Require images, filter and bias."""
    validate_convolution(op, GROUPED_CONV_2D_FORMS, channel_dim=0)


def prepare_grouped_conv_2d(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    window = window_of_grouped_conv_2d(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, GroupedConv2dImplicit.FILTER)
    if channels % window.groups:
        op.refuse(f"got {channels} output channels, expected a multiple of {window.groups}, the number of groups")
    if images.channels not in (0, depth * window.groups):
        op.refuse(f"the input has {images.channels} channels, expected {window.groups} groups of {depth} channels")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


GROUPED_CONV_2D = OperationDefinition(
    OperationType.GROUPED_CONV_2D,
    3,
    validate_grouped_conv_2d,
    prepare_grouped_conv_2d,
    layout=OnImages(GROUPED_CONV_2D_FORMS),
    work=of_filters,
)


class TransposeConv2dImplicit(IntEnum):
    """The inputs of the implicit form: a scheme gives the padding."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels]."""
    BIAS = 2
    """[output channels]."""
    OUTPUT_SHAPE = 3
    """[4]: the output's dimensions."""
    PADDING = 4
    STRIDE_WIDTH = 5
    STRIDE_HEIGHT = 6
    ACTIVATION = 7
    LAYOUT = 8


class TransposeConv2dExplicit(IntEnum):
    """The inputs of the explicit form: the padding is given."""

    INPUT = 0
    """Images."""
    FILTER = 1
    """[output channels, height, width, input channels]."""
    BIAS = 2
    """[output channels]."""
    PADDING_LEFT = 3
    PADDING_RIGHT = 4
    PADDING_TOP = 5
    PADDING_BOTTOM = 6
    STRIDE_WIDTH = 7
    STRIDE_HEIGHT = 8
    ACTIVATION = 9
    LAYOUT = 10


TRANSPOSE_CONV_2D_FORMS = Forms(TransposeConv2dImplicit, TransposeConv2dExplicit, layout_required=True)


@once
def window_of_transpose_conv_2d(op: OperationContext) -> Window:
    """Return the window of a TRANSPOSE_CONV_2D over its output.

    The filter is [output channels, height, width, input channels]. In the implicit form the paddings are those of the
    requested output.
    """
    _, height, width, _ = filter_of(op, TransposeConv2dImplicit.FILTER)
    return window_by_forms(op, TRANSPOSE_CONV_2D_FORMS, (height, width), _asked(op) or (0, 0))


def validate_transpose_conv_2d(op: Signature) -> None:
    """Require images, filter and bias, and in the implicit form the output's dimensions."""
    validate_convolution(op, TRANSPOSE_CONV_2D_FORMS, channel_dim=0)
    if TRANSPOSE_CONV_2D_FORMS.of(op.context) is TransposeConv2dImplicit:
        op.tensor(TransposeConv2dImplicit.OUTPUT_SHAPE, {I32: 3}, rank=1)


def images_out(op: OperationContext) -> Images:
    """Return the dimensions of the output. Raises UnknownYet."""
    window = window_of_transpose_conv_2d(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, TransposeConv2dImplicit.FILTER)
    if images.channels not in (0, depth):
        op.refuse(f"the filter's depth is {depth}, expected {images.channels}: the input's channels")
    height, width = _asked(op) or (None, None)
    result = Images(
        images.batch,
        _output(op, window.height, images.height, height),
        _output(op, window.width, images.width, width),
        channels,
    )
    if height is not None:
        asked = op.integers(TransposeConv2dImplicit.OUTPUT_SHAPE)
        made = result.dimensions(window.channels_first)
        # A file whose batch is open keeps the 1 that it was exported with.
        fits = [one in (0, other) for one, other in zip(made, asked, strict=True)]
        if not all(fits[1:]) or not (fits[0] or asked[0] == 1):
            op.refuse(f"output shape {list(asked)}, expected {describe(made)} by batch and filters")
    return result


def prepare_transpose_conv_2d(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    images = images_out(op)
    require_bias(op, images.channels)
    return (images.dimensions(layout_of(op, TRANSPOSE_CONV_2D_FORMS)),)


def _asked(op: OperationContext) -> tuple[int, int] | None:
    """Return the output's height and width if an input gives them, else None."""
    if TRANSPOSE_CONV_2D_FORMS.of(op) is TransposeConv2dExplicit:
        return None
    shape = op.integers(TransposeConv2dImplicit.OUTPUT_SHAPE)
    if len(shape) != 4 or min(shape) < 0:
        op.refuse(f"output shape {list(shape)}, expected 4 sizes")
    height, width = shape[2:] if layout_of(op, TRANSPOSE_CONV_2D_FORMS) else shape[1:3]
    return height, width


def _output(op: OperationContext, axis: Axis, length: int, asked: int | None) -> int:
    if asked is None:
        result = (length - 1) * axis.stride + axis.reach - axis.before - axis.after if length else 0
    else:
        result = asked
    if length and (result < 1 or axis.output(result) != length):
        op.refuse(f"an output of {result} elements has room for {axis.output(result)} windows, expected {length}")
    return result


TRANSPOSE_CONV_2D = OperationDefinition(
    OperationType.TRANSPOSE_CONV_2D,
    3,
    validate_transpose_conv_2d,
    prepare_transpose_conv_2d,
    layout=OnImages(TRANSPOSE_CONV_2D_FORMS),
    work=of_transposed_filters,
)
