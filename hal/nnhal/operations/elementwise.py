"""Operations on each element: of one tensor, and of two that broadcast.

ADD, SUB, MUL and DIV: element-wise arithmetic of two tensors that broadcast, with a fused activation.

ABS, EXP, FLOOR, HARD_SWISH, LOG, LOGICAL_NOT, NEG, RSQRT, SIN and SQRT: a function of each element of a tensor.

POW: the first tensor to the power of the second, broadcast.

MAXIMUM and MINIMUM: the larger or the smaller of two tensors that broadcast, element by element.
Inputs and output may differ in quantisation.

EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL and NOT_EQUAL: element-wise comparison of two tensors that broadcast.
Quantised inputs may differ in scale and zero point: the real numbers are compared.

LOGICAL_AND and LOGICAL_OR: conjunction and disjunction of two tensors that broadcast.

PRELU: elements that are not negative as they are, others times alpha. Both tensors broadcast.

SELECT: elements of the first tensor where a mask is true, elsewhere of the second. Quantisations may differ.
"""

from __future__ import annotations

from collections.abc import Callable

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import agreed, broadcast
from nnhal.operations.layout_rules import FollowsOrder, element_wise
from nnhal.operations.operand_types import B8, F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.operands import Inputs, Levels, same, scalar, signature, tensor
from nnhal.operations.windows import activation_of
from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal.types.layout import Dimensions


def _moved(types: Levels, tensors: int) -> FollowsOrder | None:
    """Return the rule of a function of each element. Truth values have none, since TRANSPOSE does not take them."""
    return None if types.keys() == {B8} else element_wise(tensors)


class PairwiseInput(Inputs):
    FIRST = tensor({B8: 3, F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any dimensions."
    SECOND = same(), "Dimensions that broadcast with the first's: aligned at the last axis, equal or 1."


def prepare_pairwise(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions, broadcast."""
    return (broadcast(op, op.ranked(PairwiseInput.FIRST), op.ranked(PairwiseInput.SECOND)),)


def pairwise(kind: OperationType, types: Levels, result: OperandType | None = None) -> OperationDefinition:
    """Define an operation of feature level 3 on two tensors of one type. The output has type ``result``, or theirs."""

    output = same() if result is None else tensor({result: 1})
    validate = signature(PairwiseInput, output, types=types)
    return OperationDefinition(kind, 3, validate, prepare_pairwise, layout=_moved(types, 2))


class BinaryInput(Inputs):
    FIRST = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 4}, rank=(1, 4)), "Any dimensions."
    SECOND = (
        same(rank=(1, 4)),
        "Dimensions that broadcast with the first's: aligned at the last axis, equal or 1.",
    )
    ACTIVATION = scalar(INT32)


def _require_growing_scale(op: Signature) -> None:
    if op.inputs[BinaryInput.FIRST].type not in QUANT8:
        return
    first, second = (op.inputs[i].scale for i in (BinaryInput.FIRST, BinaryInput.SECOND))
    if op.outputs[0].scale <= first * second:
        op.context.refuse(f"the output's scale is {op.outputs[0].scale}, expected more than {first} * {second}")


def prepare_binary(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions, broadcast."""
    activation = activation_of(op, BinaryInput.ACTIVATION)
    if op.main_type() == I32 and activation != FusedActivation.NONE:
        op.refuse(f"the activation is {activation.name}, expected NONE for TENSOR_INT32")
    return (broadcast(op, op.ranked(BinaryInput.FIRST), op.ranked(BinaryInput.SECOND)),)


def _binary(
    kind: OperationType, since: int, types: Levels, *further: Callable[[Signature], None]
) -> OperationDefinition:
    validate = signature(BinaryInput, same(), types=types, further=further)
    return OperationDefinition(kind, since, validate, prepare_binary, layout=element_wise(2))


ADD = _binary(OperationType.ADD, 1, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 4})
MUL = _binary(OperationType.MUL, 1, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 4}, _require_growing_scale)
SUB = _binary(OperationType.SUB, 2, {F32: 2, F16: 3, Q8A: 3, Q8AS: 4, I32: 4})
DIV = _binary(OperationType.DIV, 2, {F32: 2, F16: 3, I32: 4})


class UnaryInput(Inputs):
    INPUT = tensor({B8: 3, F16: 3, F32: 3, I32: 3, Q8A: 4, Q8AS: 4}), "Any dimensions."


def prepare_unary(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(UnaryInput.INPUT),)


def _definition(
    kind: OperationType, since: int, types: Levels, rank: tuple[int, int] | None = None
) -> OperationDefinition:
    validate = signature(UnaryInput, same(), types=types, rank=rank)
    return OperationDefinition(kind, since, validate, prepare_unary, layout=_moved(types, 1))


ABS = _definition(OperationType.ABS, 3, {F16: 3, F32: 3, I32: 4})
EXP = _definition(OperationType.EXP, 3, {F16: 3, F32: 3})
FLOOR = _definition(OperationType.FLOOR, 1, {F32: 1, F16: 3}, rank=(1, 4))
HARD_SWISH = _definition(OperationType.HARD_SWISH, 4, {F16: 4, F32: 4, Q8A: 4, Q8AS: 4})
LOG = _definition(OperationType.LOG, 3, {F16: 3, F32: 3})
LOGICAL_NOT = _definition(OperationType.LOGICAL_NOT, 3, {B8: 3})
NEG = _definition(OperationType.NEG, 3, {F16: 3, F32: 3, I32: 3})
RSQRT = _definition(OperationType.RSQRT, 3, {F16: 3, F32: 3, Q8A: 7, Q8AS: 7})
SIN = _definition(OperationType.SIN, 3, {F16: 3, F32: 3})
SQRT = _definition(OperationType.SQRT, 3, {F16: 3, F32: 3})


POW = pairwise(OperationType.POW, {F16: 3, F32: 3})


_TYPES = {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}

MAXIMUM = pairwise(OperationType.MAXIMUM, _TYPES)
MINIMUM = pairwise(OperationType.MINIMUM, _TYPES)


def _comparison(kind: OperationType) -> OperationDefinition:
    return pairwise(kind, {B8: 3, F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}, result=B8)


EQUAL = _comparison(OperationType.EQUAL)
GREATER = _comparison(OperationType.GREATER)
GREATER_EQUAL = _comparison(OperationType.GREATER_EQUAL)
LESS = _comparison(OperationType.LESS)
LESS_EQUAL = _comparison(OperationType.LESS_EQUAL)
NOT_EQUAL = _comparison(OperationType.NOT_EQUAL)


LOGICAL_AND = pairwise(OperationType.LOGICAL_AND, {B8: 3})
LOGICAL_OR = pairwise(OperationType.LOGICAL_OR, {B8: 3})


PRELU = pairwise(OperationType.PRELU, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})


class SelectInput(Inputs):
    MASK = tensor({B8: 3}), "Any dimensions."
    FIRST = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "The mask's dimensions."
    SECOND = same(1), "The mask's dimensions."


def prepare_select(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the common dimensions of all three inputs, which do not broadcast."""
    return (agreed(op, SelectInput.MASK, SelectInput.FIRST, SelectInput.SECOND),)


SELECT = OperationDefinition(
    OperationType.SELECT, 3, signature(SelectInput, same(SelectInput.FIRST)), prepare_select, layout=element_wise(3)
)
