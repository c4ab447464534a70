"""GROUPED_CONV_2D: a convolution whose channels are divided into independent groups."""

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


class Explicit(IntEnum):
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


FORMS = Forms(Implicit, Explicit, layout_required=True)


def window_of(op: OperationContext) -> Window:
    """Return the window of a GROUPED_CONV_2D. The filter is [output channels, height, width, channels of a group]."""
    _, height, width, _ = filter_of(op, Implicit.FILTER)
    return window_by_forms(op, FORMS, (height, width))


def validate(op: Signature) -> None:
    """Require images, filter and bias."""
    validate_convolution(op, FORMS, channel_dim=0)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    window = window_of(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, Implicit.FILTER)
    if channels % window.groups:
        op.refuse(f"got {channels} output channels, expected a multiple of {window.groups}, the number of groups")
    if images.channels not in (0, depth * window.groups):
        op.refuse(f"the input has {images.channels} channels, expected {window.groups} groups of {depth} channels")
    require_bias(op, channels)
    height = windows_along(op, window.height, images.height)
    width = windows_along(op, window.width, images.width)
    return (Images(images.batch, height, width, channels).dimensions(window.channels_first),)


GROUPED_CONV_2D = OperationDefinition(OperationType.GROUPED_CONV_2D, 3, validate, prepare)
