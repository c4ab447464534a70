"""UNIDIRECTIONAL_SEQUENCE_RNN: a basic recurrent cell over a sequence."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._rnn import RnnInputs, match_cell, validate_cell
from nnhal.operations._sequence import axes_of, validate_outputs
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import F16, F32, INT32
from nnhal.operations._window import activation_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, time, input size]."""
    WEIGHTS = 1
    RECURRENT_WEIGHTS = 2
    BIAS = 3
    STATE = 4
    ACTIVATION = 5
    TIME_MAJOR = 6


CELL = RnnInputs(Input.WEIGHTS)


def validate(op: Signature) -> None:
    """Require float tensors. The state as a second output needs feature level 4."""
    op.count(7, (1, 2), names=Input)
    main = op.tensor(Input.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, CELL, main)
    op.scalar(Input.ACTIVATION, INT32)
    op.scalar(Input.TIME_MAJOR, INT32)
    validate_outputs(op, main, sequences=1, states=len(op.outputs) - 1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the output in the input's order of axes, and the state if it is an output."""
    activation_of(op, Input.ACTIVATION)
    axes = axes_of(time_major(op))
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, *axes, "input size")
    match_cell(op, CELL, sizes)
    return (sizes.of(*axes, "output size"), sizes.of("batch", "output size"))[: len(op.outputs)]


def time_major(op: OperationContext) -> bool:
    """Return whether time is the first axis. Only this operation takes an integer for it."""
    value = op.integer(Input.TIME_MAJOR)
    if value not in (0, 1):
        op.refuse(f"time_major is {value}, expected 0 or 1")
    return value == 1


UNIDIRECTIONAL_SEQUENCE_RNN = OperationDefinition(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, 3, validate, prepare)
