"""RESIZE_NEAREST_NEIGHBOR: images resized by taking the nearest pixel."""

from __future__ import annotations

from nnhal.operations._context import Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._resize import prepare_resize, validate_resize
from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperationType


def validate(op: Signature) -> None:
    """Check the operands. The layout flag is required."""
    validate_resize(op, {F32: 3, F16: 3, Q8A: 3, Q8AS: 4}, range(4, 7))


RESIZE_NEAREST_NEIGHBOR = OperationDefinition(OperationType.RESIZE_NEAREST_NEIGHBOR, 3, validate, prepare_resize)
