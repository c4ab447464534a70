"""Rules that the operations on boxes share.

A box is (x1, y1, x2, y2), from its upper left to its lower right corner, in pixels of the original image. Quantised
boxes, and sizes of images, are in eighths of a pixel.
"""

from __future__ import annotations

from nnhal.operations._context import OperationContext
from nnhal.operations._types import F16, F32, Q8A, Q8AS, Q16A, Q16S, QUANT8
from nnhal.types import Operand, OperandType

BOX = 4
"""How many numbers describe one box."""

MAIN_TYPES: dict[OperandType, int] = {F16: 3, F32: 3, Q8A: 3, Q8AS: 4}
"""The types of scores and feature maps, each with its feature level."""

_EIGHTH = 0.125


def box_type(main: int) -> OperandType:
    """Return the type of boxes that belong to scores or feature maps of type ``main``."""
    return Q16A if main in QUANT8 else OperandType(main)


def require_eighths(op: OperationContext, *operands: Operand) -> None:
    """Refuse quantised boxes that are not in eighths of a pixel."""
    for operand in operands:
        if operand.type in (Q16A, Q16S) and (operand.scale, operand.zero_point) != (_EIGHTH, 0):
            op.refuse(f"boxes have scale {operand.scale} and zero point {operand.zero_point}, expected {_EIGHTH} and 0")


def require_equal_outputs(op: OperationContext, boxes: str) -> None:
    """Refuse outputs that are declared with different numbers of boxes. How many they get, only the values tell."""
    declared = {output.dimensions[0] for output in op.outputs if output.dimensions} - {0}
    if len(declared) > 1:
        op.refuse(f"the outputs have {' and '.join(map(str, sorted(declared)))} {boxes}, expected equal numbers")


def agreed(op: OperationContext, what: str, *lengths: int) -> int:
    """Return the common length of several axes, 0 if none of them is known yet. Refuse different lengths."""
    known = set(lengths) if op.executing else set(lengths) - {0}
    if len(known) > 1:
        op.refuse(f"{what}: its operands have {' and '.join(map(str, sorted(known)))}, expected equal numbers")
    return max(known, default=0)
