"""RNN: one step of a basic recurrent cell."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._rnn import RnnInputs, match_cell, validate_cell
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import F16, F32, INT32
from nnhal.operations._window import activation_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, input size]."""
    WEIGHTS = 1
    RECURRENT_WEIGHTS = 2
    BIAS = 3
    STATE = 4
    ACTIVATION = 5


CELL = RnnInputs(Input.WEIGHTS)


def validate(op: Signature) -> None:
    """Require float tensors."""
    op.count(6, 2, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, F16: 3}, rank=2)
    validate_cell(op, CELL, main)
    op.scalar(Input.ACTIVATION, INT32)
    op.output(0, main, rank=2)
    op.output(1, main, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of state and output, both [batch, units]."""
    activation_of(op, Input.ACTIVATION)
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, "batch", "input size")
    match_cell(op, CELL, sizes)
    dimensions = sizes.of("batch", "output size")
    return dimensions, dimensions


RNN = OperationDefinition(OperationType.RNN, 1, validate, prepare)
