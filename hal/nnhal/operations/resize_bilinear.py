"""RESIZE_BILINEAR: images resized by interpolation between four pixels."""

from __future__ import annotations

from nnhal.operations._context import Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._resize import prepare_resize, validate_resize
from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperationType


def validate(op: Signature) -> None:
    """Check the operands. At feature level 1 only sizes and channels last are allowed."""
    validate_resize(op, {F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, range(3, 7))


RESIZE_BILINEAR = OperationDefinition(OperationType.RESIZE_BILINEAR, 1, validate, prepare_resize)
