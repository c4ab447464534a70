"""Images resized: by the nearest neighbour, and bilinearly.

RESIZE_NEAREST_NEIGHBOR: images resized by taking the nearest pixel.

RESIZE_BILINEAR: images resized by interpolation between four pixels.
"""

from __future__ import annotations

from enum import IntEnum
from math import floor

import numpy as np

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_input_quantization
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import BOOL, F16, F32, INT32, Q8A, Q8AS, scalar_float
from nnhal.operations.parameters import require_at_least, require_positive
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions

_TOO_LONG = 1 << 31


class ResizeInput(IntEnum):
    """The inputs. Width and height are INT32 sizes or float factors."""

    INPUT = 0
    """Images."""
    WIDTH = 1
    """The width in pixels (INT32), or a factor."""
    HEIGHT = 2
    """The height in pixels (INT32), or a factor."""
    LAYOUT = 3
    ALIGN_CORNERS = 4
    """True if the centres of the corner pixels are aligned."""
    HALF_PIXEL_CENTERS = 5
    """True if the centres of pixels lie at halves."""


def validate_resize(op: Signature, types: dict[OperandType, int], counts: range) -> None:
    """Check the operands. Factors and the layout flag need feature level 3, the flags after it level 4."""
    op.count(counts, names=ResizeInput)
    main = op.tensor(ResizeInput.INPUT, types, rank=4)
    if op.inputs[ResizeInput.WIDTH].type == INT32:
        op.scalar(ResizeInput.WIDTH, INT32)
        op.scalar(ResizeInput.HEIGHT, INT32)
    else:
        op.scalar(ResizeInput.WIDTH, scalar_float(main), since=3)
        op.scalar(ResizeInput.HEIGHT, scalar_float(main), since=3)
    op.scalar(ResizeInput.LAYOUT, BOOL, since=3)
    op.scalar(ResizeInput.ALIGN_CORNERS, BOOL, since=4)
    op.scalar(ResizeInput.HALF_PIXEL_CENTERS, BOOL, since=4)
    op.output(0, main, rank=4)


def spatial_axes(op: OperationContext) -> tuple[int, int]:
    """Return the axes of height and width."""
    return (2, 3) if op.boolean(ResizeInput.LAYOUT) else (1, 2)


def prepare_resize(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with the new height and width."""
    dimensions = list(op.ranked(ResizeInput.INPUT, 4))
    if op.executing and 0 in dimensions[1:]:
        op.refuse(f"the images have dimensions {dimensions}, expected height, width and channels above 0")
    if op.boolean(ResizeInput.ALIGN_CORNERS) and op.boolean(ResizeInput.HALF_PIXEL_CENTERS):
        op.refuse("align_corners and half_pixel_centers are both true, expected at most one of them")
    require_input_quantization(op)
    for axis, index in zip(spatial_axes(op), (ResizeInput.HEIGHT, ResizeInput.WIDTH), strict=True):
        dimensions[axis] = _length(op, index, dimensions[axis])
    return (tuple(dimensions),)


def _length(op: OperationContext, index: ResizeInput, length: int) -> int:
    name = f"the output's {index.name.lower()}"
    if op.main_type(index) == INT32:
        return require_at_least(op, name, op.integer(index), 1)
    factor = require_positive(op, f"the factor of {name}", op.real(index))
    if length * factor >= _TOO_LONG:
        op.refuse(f"{name} is {length} * {factor}, expected less than {_TOO_LONG}")
    resized = floor(np.float32(length) * np.float32(factor))  # float32, since its rounding can change the result
    return require_at_least(op, name, resized, 1) if length else 0


def validate_resize_nearest_neighbor(op: Signature) -> None:
    """Check the operands. The layout flag is required."""
    validate_resize(op, {F32: 3, F16: 3, Q8A: 3, Q8AS: 4}, range(4, 7))


RESIZE_NEAREST_NEIGHBOR = OperationDefinition(
    OperationType.RESIZE_NEAREST_NEIGHBOR,
    3,
    validate_resize_nearest_neighbor,
    prepare_resize,
    layout=OnImages(ResizeInput.LAYOUT),
)


def validate_resize_bilinear(op: Signature) -> None:
    """Check the operands. At feature level 1 only sizes and channels last are allowed."""
    validate_resize(op, {F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, range(3, 7))


RESIZE_BILINEAR = OperationDefinition(
    OperationType.RESIZE_BILINEAR, 1, validate_resize_bilinear, prepare_resize, layout=OnImages(ResizeInput.LAYOUT)
)
