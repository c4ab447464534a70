"""Operations of each element: arithmetic that broadcasts, activations, and the functions of tables."""

from __future__ import annotations

from math import inf

from nnhal.operations import OperationContext
from nnhal.operations.elementwise import BinaryInput, PairwiseInput
from nnhal.operations.operand_types import QUANT8
from nnhal.operations.windows import activation_of
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import FusedActivation, OperationType
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation

_ACTIVATIONS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}
_BINARIES = {
    OperationType.ADD: Operator.ADD,
    OperationType.DIV: Operator.DIVIDE,
    OperationType.MUL: Operator.MULTIPLY,
    OperationType.SUB: Operator.SUBTRACT,
}
_TABLES = {
    OperationType.HARD_SWISH: Operator.HARD_SWISH,
    OperationType.LOGISTIC: Operator.SIGMOID,
    OperationType.TANH: Operator.TANH,
}


def emit_binary(op: HalOperation) -> str:
    """Add the nodes of an ADD, SUB, MUL or DIV."""
    operands = [op.tensor(BinaryInput.FIRST), op.tensor(BinaryInput.SECOND)]
    made = op.add(_BINARIES[OperationType(op.context.type)], operands)
    return op.activated(made, activation_of(op.context, BinaryInput.ACTIVATION))


def emit_table(op: HalOperation) -> str:
    """Add the node of a LOGISTIC, TANH or HARD_SWISH."""
    return op.add(_TABLES[OperationType(op.context.type)], [op.tensor(0)])


def emit_activation(op: HalOperation) -> str:
    """Add the node of a RELU, RELU1 or RELU6."""
    return op.activated(op.tensor(0), _ACTIVATIONS[op.context.type])


def emit_prelu(op: HalOperation) -> str:
    """Add the node of a PRELU: one slope is that of a leaky relu."""
    slope = _number(op.context, PairwiseInput.SECOND)
    if slope is not None:
        return op.add(Operator.LEAKY_RELU, [op.tensor(PairwiseInput.FIRST)], {"alpha": slope})
    return op.add(Operator.PRELU, [op.tensor(PairwiseInput.FIRST), op.tensor(PairwiseInput.SECOND)])


def emit_extremum(op: HalOperation) -> str:
    """Add the node of a MAXIMUM or MINIMUM with a number: one end of a range."""
    (end,) = (value for index in PairwiseInput if (value := _number(op.context, index)) is not None)
    (data,) = (index for index in PairwiseInput if not op.context.is_known(index))
    low, high = (end, inf) if op.context.type == OperationType.MAXIMUM else (-inf, end)
    return op.add(Operator.CLIP, [op.tensor(data)], {"a_min": low, "a_max": high})


def one_number(op: OperationContext) -> Support:
    """Refuse a MAXIMUM or MINIMUM of two tensors."""
    if any(_number(op, index) is not None for index in PairwiseInput):
        return SUPPORTED
    return Unsupported("NO_IMPL", "two tensors", "a constant of one element, which is an end of a range")


def _number(op: OperationContext, index: int) -> float | None:
    """The real number that an input is, if it is a constant of one element."""
    if not op.is_known(index) or op.value(index).size != 1:
        return None
    operand, value = op.inputs[index], float(op.value(index).item())
    return (value - operand.zero_point) * operand.scale if operand.type in QUANT8 else value
