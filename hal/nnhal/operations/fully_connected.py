"""FULLY_CONNECTED: input x weights^T + bias, with a fused activation."""

from __future__ import annotations

from enum import IntEnum
from math import prod

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._convolution import note_scale_constraint, require_bias
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations._window import activation_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, describe


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 2 to 4, read as [batch, input size]."""
    WEIGHTS = 1
    """[units, input size]."""
    BIAS = 2
    """[units]."""
    ACTIVATION = 3


def validate(op: Signature) -> None:
    """Check the types and the known dimensions, which for this operation are part of a model's validity."""
    op.count(4, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(2, 4))
    op.same(Input.WEIGHTS, Input.INPUT, rank=2)
    op.tensor(Input.BIAS, {I32 if main in QUANT8 else main: 1}, rank=1)
    op.scalar(Input.ACTIVATION, INT32)
    op.output(0, main, rank=2)
    note_scale_constraint(op)
    if all(op.inputs[i].dimensions for i in (Input.INPUT, Input.WEIGHTS, Input.BIAS)):
        _dimensions(op.context)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return [batch, units]. The batch is the number of rows of the weights' length that the input's elements make."""
    activation_of(op, Input.ACTIVATION)
    dimensions = _dimensions(op)
    require_bias(op, dimensions[1])
    return (dimensions,)


def _dimensions(op: OperationContext) -> Dimensions:
    given = op.ranked(Input.INPUT, (2, 4))
    units, size = op.ranked(Input.WEIGHTS, 2)
    bias = op.ranked(Input.BIAS, 1)
    if op.executing and 0 in (units, size):
        op.refuse(f"the weights have dimensions {[units, size]}, expected no 0")
    if units and bias[0] not in (0, units):
        op.refuse(f"the bias has {bias[0]} elements, expected {units}, the rows of the weights")
    if size == 0 or (0 in given and not op.executing):
        return (0, units or bias[0])
    if prod(given) % size:
        op.refuse(
            f"the input has dimensions {describe(given)}, expected a multiple of {size} elements, "
            "the columns of the weights"
        )
    return (prod(given) // size, units or bias[0])


FULLY_CONNECTED = OperationDefinition(OperationType.FULLY_CONNECTED, 1, validate, prepare)
