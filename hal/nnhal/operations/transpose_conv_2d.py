"""TRANSPOSE_CONV_2D: every input element adds its scaled filter to the output: the gradient of a convolution.

The window slides over the output: a convolution with that window maps the output's size to the input's. The implicit
form gives the size of the output, the explicit form yields the smallest size that fits.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._convolution import require_bias, validate_convolution
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import I32
from nnhal.operations._window import Axis, Forms, Images, Window, filter_of, images_of, layout_of, window_by_forms
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
    OUTPUT_SHAPE = 3
    """[4]: the output's dimensions."""
    PADDING = 4
    STRIDE_WIDTH = 5
    STRIDE_HEIGHT = 6
    ACTIVATION = 7
    LAYOUT = 8


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


FORMS = Forms(Implicit, Explicit, layout_required=True)


def window_of(op: OperationContext) -> Window:
    """Return the window of a TRANSPOSE_CONV_2D over its output.

    The filter is [output channels, height, width, input channels]. In the implicit form the paddings are those of the
    requested output.
    """
    _, height, width, _ = filter_of(op, Implicit.FILTER)
    return window_by_forms(op, FORMS, (height, width), _asked(op) or (0, 0))


def validate(op: Signature) -> None:
    """Require images, filter and bias, and in the implicit form the output's dimensions."""
    validate_convolution(op, FORMS, channel_dim=0)
    if FORMS.of(op.context) is Implicit:
        op.tensor(Implicit.OUTPUT_SHAPE, {I32: 3}, rank=1)


def images_out(op: OperationContext) -> Images:
    """Return the dimensions of the output. Raises UnknownYet."""
    window = window_of(op)
    images = images_of(op, window.channels_first)
    channels, _, _, depth = filter_of(op, Implicit.FILTER)
    if images.channels not in (0, depth):
        op.refuse(f"the filter's depth is {depth}, expected {images.channels}: the input's channels")
    height, width = _asked(op) or (None, None)
    return Images(
        images.batch,
        _output(op, window.height, images.height, height),
        _output(op, window.width, images.width, width),
        channels,
    )


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images, with a channel for each filter."""
    images = images_out(op)
    require_bias(op, images.channels)
    return (images.dimensions(layout_of(op, FORMS)),)


def _asked(op: OperationContext) -> tuple[int, int] | None:
    """Return the output's height and width if an input gives them, else None."""
    if FORMS.of(op) is Explicit:
        return None
    shape = op.integers(Implicit.OUTPUT_SHAPE)
    if len(shape) != 4 or min(shape) < 0:
        op.refuse(f"output shape {list(shape)}, expected 4 sizes")
    height, width = shape[2:] if layout_of(op, FORMS) else shape[1:3]
    return height, width


def _output(op: OperationContext, axis: Axis, length: int, asked: int | None) -> int:
    if asked is None:
        result = (length - 1) * axis.stride + axis.reach - axis.before - axis.after if length else 0
    else:
        result = asked
    if length and (result < 1 or axis.output(result) != length):
        op.refuse(f"an output of {result} elements has room for {axis.output(result)} windows, expected {length}")
    return result


TRANSPOSE_CONV_2D = OperationDefinition(OperationType.TRANSPOSE_CONV_2D, 3, validate, prepare)
