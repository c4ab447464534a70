"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D: one value for each window of an image, channel by channel.

Padding does not affect the result: a window that holds only padding is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature, once
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_input_quantization
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS, QUANT8
from nnhal.operations.windows import Axis, Forms, Images, Window, images_of, window_by_forms, windows_along
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions


class Implicit(IntEnum):
    """The inputs of the implicit form: a scheme gives the padding."""

    INPUT = 0
    """Images."""
    PADDING = 1
    STRIDE_WIDTH = 2
    STRIDE_HEIGHT = 3
    FILTER_WIDTH = 4
    FILTER_HEIGHT = 5
    ACTIVATION = 6
    LAYOUT = 7


class Explicit(IntEnum):
    """The inputs of the explicit form: the padding is given."""

    INPUT = 0
    """Images."""
    PADDING_LEFT = 1
    PADDING_RIGHT = 2
    PADDING_TOP = 3
    PADDING_BOTTOM = 4
    STRIDE_WIDTH = 5
    STRIDE_HEIGHT = 6
    FILTER_WIDTH = 7
    FILTER_HEIGHT = 8
    ACTIVATION = 9
    LAYOUT = 10


FORMS = Forms(Implicit, Explicit)


@once
def window_of(op: OperationContext) -> Window:
    return window_by_forms(op, FORMS)


def _validator(types: dict[OperandType, int]) -> Callable[[Signature], None]:
    def validate(op: Signature) -> None:
        FORMS.validate(op)
        main = op.tensor(Implicit.INPUT, types, rank=4)
        op.output(0, main, rank=4)

    return validate


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of the same number of images and channels, with a value for each window."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    window = window_of(op)
    images = images_of(op, window.channels_first)
    height = _windows(op, window.height, images.height)
    width = _windows(op, window.width, images.width)
    return (Images(images.batch, height, width, images.channels).dimensions(window.channels_first),)


def _windows(op: OperationContext, axis: Axis, length: int) -> int:
    count = windows_along(op, axis, length)
    last = (count - 1) * axis.stride - axis.before
    if axis.before >= axis.size or (length and last >= length):
        op.refuse(
            f"a window of {axis.size} over {length} elements padded by {axis.before} and {axis.after} "
            "holds only padding, expected at least one element"
        )
    return count


AVERAGE_POOL_2D = OperationDefinition(
    OperationType.AVERAGE_POOL_2D, 1, _validator({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}), prepare, layout=OnImages(FORMS)
)
L2_POOL_2D = OperationDefinition(
    OperationType.L2_POOL_2D, 1, _validator({F32: 1, F16: 3}), prepare, layout=OnImages(FORMS)
)
MAX_POOL_2D = OperationDefinition(
    OperationType.MAX_POOL_2D, 1, _validator({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}), prepare, layout=OnImages(FORMS)
)
