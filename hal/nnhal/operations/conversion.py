"""Conversions between types of elements.

CAST: the stored numbers in another element type, regardless of scale and zero point.

QUANTIZE: floats become 8-bit values with the output's scale and zero point.

DEQUANTIZE: 8-bit values become the floats that they stand for.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.layout_rules import element_wise
from nnhal.operations.operand_types import B8, F16, F32, I32, Q8A, Q8AS, Q8C, Q8S, Q16A, Q16S
from nnhal.operations.operands import (
    Inputs,
    equal_dimensions,
    signature,
    tensor,
)
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

_CONVERTIBLE = {F16: 3, F32: 3, I32: 3, Q8A: 3}
_IDENTITY_ONLY = {B8: 4, Q8AS: 4, Q8S: 4, Q16A: 4, Q16S: 4}


class CastInput(IntEnum):
    INPUT = 0
    """Any dimensions."""


def validate_cast(op: Signature) -> None:
    """Require one of four types that convert to each other, or of five that convert to themselves only."""
    op.count(1, names=CastInput)
    main = op.tensor(CastInput.INPUT, _CONVERTIBLE | _IDENTITY_ONLY)
    op.output(0, _CONVERTIBLE if main in _CONVERTIBLE else main)
    equal_dimensions(op)


def prepare_cast(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(CastInput.INPUT),)


CAST = OperationDefinition(
    OperationType.CAST, 3, validate_cast, prepare_cast, compares_lengths=True, layout=element_wise()
)


class QuantizeInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3}, rank=(1, 4)), "Rank 1 to 4."


def prepare_quantize(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(QuantizeInput.INPUT, (1, 4)),)


QUANTIZE = OperationDefinition(
    OperationType.QUANTIZE,
    3,
    signature(QuantizeInput, tensor({Q8A: 3, Q8AS: 4}, rank=(1, 4))),
    prepare_quantize,
    layout=element_wise(),
)


class DequantizeInput(Inputs):
    INPUT = tensor({Q8A: 1, Q8S: 3, Q8C: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."


def prepare_dequantize(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(DequantizeInput.INPUT, (1, 4)),)


DEQUANTIZE = OperationDefinition(
    OperationType.DEQUANTIZE,
    1,
    signature(DequantizeInput, tensor({F32: 1, F16: 3}, rank=(1, 4))),
    prepare_dequantize,
    layout=element_wise(),
)
