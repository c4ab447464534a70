"""CONV_2D: a filter for each output channel slides over images and sums over all input channels."""

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


class Explicit(IntEnum):
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


FORMS = Forms(Implicit, Explicit)


def window_of(op: OperationContext) -> Window:
    """Return the window of a CONV_2D. The filter is [output channels, height, width, input channels]."""
    _, height, width, _ = filter_of(op, Implicit.FILTER)
    return window_by_forms(op, FORMS, (height, width))


def validate(op: Signature) -> None:
    """Require images, filter and bias. Layout and dilation need feature level 3."""
    validate_convolution(op, FORMS, channel_dim=0, scale_constraint=True)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    window = window_of(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, Implicit.FILTER)
    if images.channels not in (0, depth):
        op.refuse(f"the filter's depth is {depth}, expected {images.channels}: the input's channels")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


CONV_2D = OperationDefinition(OperationType.CONV_2D, 1, validate, prepare)
