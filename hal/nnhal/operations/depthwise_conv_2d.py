"""DEPTHWISE_CONV_2D: every input channel has its own filters, as many as the depth multiplier."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._convolution import require_bias, validate_convolution
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._window import Forms, Images, Window, filter_of, images_of, window_by_forms, windows_along
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Implicit(IntEnum):
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


class Explicit(IntEnum):
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


FORMS = Forms(Implicit, Explicit)


def window_of(op: OperationContext) -> Window:
    """Return the window of a DEPTHWISE_CONV_2D. The filter is [1, height, width, output channels]."""
    _, height, width, _ = filter_of(op, Implicit.FILTER)
    return window_by_forms(op, FORMS, (height, width))


def validate(op: Signature) -> None:
    """Require images, filter and bias. Layout and dilation need feature level 3."""
    validate_convolution(op, FORMS, channel_dim=3, scale_constraint=True)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with the channels times the depth multiplier."""
    window = window_of(op)
    images = images_of(op, window.channels_first)
    first, _, _, channels = filter_of(op, Implicit.FILTER)
    if first != 1:
        op.refuse(f"the filter's first axis is {first}, expected 1")
    if images.channels and channels != images.channels * window.multiplier:
        op.refuse(f"the filter has {channels} channels, expected {images.channels} x multiplier {window.multiplier}")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


DEPTHWISE_CONV_2D = OperationDefinition(OperationType.DEPTHWISE_CONV_2D, 1, validate, prepare)
