"""BIDIRECTIONAL_SEQUENCE_RNN: two basic recurrent cells over a sequence, one from its end to its start."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._rnn import RnnInputs, match_cell, validate_cell
from nnhal.operations._sequence import (
    Linking,
    axes_of,
    link_sizes,
    linking_of,
    merged_outputs,
    note_parallel_linking,
    validate_outputs,
)
from nnhal.operations._types import BOOL, F16, F32, INT32
from nnhal.operations._window import activation_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

STATES = 2
"""The number of states: forward and backward."""


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, time, input size]."""
    FORWARD_WEIGHTS = 1
    FORWARD_RECURRENT_WEIGHTS = 2
    FORWARD_BIAS = 3
    FORWARD_STATE = 4
    BACKWARD_WEIGHTS = 5
    BACKWARD_RECURRENT_WEIGHTS = 6
    BACKWARD_BIAS = 7
    BACKWARD_STATE = 8
    AUX_INPUT = 9
    """[batch, time, auxiliary size]."""
    FORWARD_AUX_WEIGHTS = 10
    BACKWARD_AUX_WEIGHTS = 11
    ACTIVATION = 12
    TIME_MAJOR = 13
    MERGE_OUTPUTS = 14
    """Whether both outputs are one, joined along the last axis."""


FORWARD = RnnInputs(Input.FORWARD_WEIGHTS, Input.FORWARD_AUX_WEIGHTS)
BACKWARD = RnnInputs(Input.BACKWARD_WEIGHTS, Input.BACKWARD_AUX_WEIGHTS)


def validate(op: Signature) -> None:
    """Require float tensors. The two states as further outputs, and parallel linking, need feature level 4."""
    op.count(15, (1, 2, 1 + STATES, 2 + STATES), names=Input)
    main = op.tensor(Input.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, FORWARD, main)
    validate_cell(op, BACKWARD, main)
    op.tensor(Input.AUX_INPUT, {main: 3}, optional=True)
    note_parallel_linking(op, Input.AUX_INPUT, Input.FORWARD_AUX_WEIGHTS)
    op.scalar(Input.ACTIVATION, INT32)
    op.scalar(Input.TIME_MAJOR, BOOL)
    op.scalar(Input.MERGE_OUTPUTS, BOOL)
    states = STATES if len(op.outputs) > STATES else 0
    validate_outputs(op, main, len(op.outputs) - states, states)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return forward and backward outputs, or both merged along the last axis, and the states if they are outputs."""
    activation_of(op, Input.ACTIVATION)
    axes = axes_of(op.boolean(Input.TIME_MAJOR))
    forward, backward = link_sizes(op, axes, Input.INPUT, Input.AUX_INPUT, linking(op))
    match_cell(op, FORWARD, forward)
    match_cell(op, BACKWARD, backward)
    sequences = merged_outputs(op, axes, forward, backward, op.boolean(Input.MERGE_OUTPUTS), STATES)
    states = (sizes.of("batch", "output size") for sizes in (forward, backward))
    return (*sequences, *states)[: len(op.outputs)]


def linking(op: OperationContext) -> Linking:
    """Return how the auxiliary input is used."""
    return linking_of(op, Input.AUX_INPUT, Input.FORWARD_AUX_WEIGHTS, Input.BACKWARD_AUX_WEIGHTS)


BIDIRECTIONAL_SEQUENCE_RNN = OperationDefinition(OperationType.BIDIRECTIONAL_SEQUENCE_RNN, 3, validate, prepare)
