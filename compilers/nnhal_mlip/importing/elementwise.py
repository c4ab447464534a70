"""ADD, RELU, RELU1 and RELU6."""

from __future__ import annotations

from nnhal.operations._window import activation_of
from nnhal.operations.elementwise import BinaryInput
from nnhal.types import FusedActivation, OperationType
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation

_ACTIVATIONS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}


def emit_add(op: HalOperation) -> str:
    """Add the nodes of an ADD."""
    summed = op.add(Operator.ADD, [op.tensor(BinaryInput.FIRST), op.tensor(BinaryInput.SECOND)])
    return op.activated(summed, activation_of(op.context, BinaryInput.ACTIVATION))


def emit_activation(op: HalOperation) -> str:
    """Add the node of a RELU, RELU1 or RELU6."""
    return op.activated(op.tensor(0), _ACTIVATIONS[op.context.type])
