"""BIDIRECTIONAL_SEQUENCE_LSTM: two long short-term memory cells over a sequence, one from its end to its start."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._lstm import (
    LstmInputs,
    float_types,
    lstm_activation_of,
    match_cell,
    require_clips,
    state_dimensions,
    validate_cell,
)
from nnhal.operations._sequence import (
    Linking,
    axes_of,
    link_sizes,
    linking_of,
    merged_outputs,
    note_parallel_linking,
    validate_outputs,
)
from nnhal.operations._types import BOOL, F16, F32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

STATES = 4
"""The number of states: output state and cell state, forward and backward."""


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, time, input size]."""
    FORWARD_INPUT_TO_INPUT_WEIGHTS = 1
    FORWARD_INPUT_TO_FORGET_WEIGHTS = 2
    FORWARD_INPUT_TO_CELL_WEIGHTS = 3
    FORWARD_INPUT_TO_OUTPUT_WEIGHTS = 4
    FORWARD_RECURRENT_TO_INPUT_WEIGHTS = 5
    FORWARD_RECURRENT_TO_FORGET_WEIGHTS = 6
    FORWARD_RECURRENT_TO_CELL_WEIGHTS = 7
    FORWARD_RECURRENT_TO_OUTPUT_WEIGHTS = 8
    FORWARD_CELL_TO_INPUT_WEIGHTS = 9
    FORWARD_CELL_TO_FORGET_WEIGHTS = 10
    FORWARD_CELL_TO_OUTPUT_WEIGHTS = 11
    FORWARD_INPUT_GATE_BIAS = 12
    FORWARD_FORGET_GATE_BIAS = 13
    FORWARD_CELL_BIAS = 14
    FORWARD_OUTPUT_GATE_BIAS = 15
    FORWARD_PROJECTION_WEIGHTS = 16
    FORWARD_PROJECTION_BIAS = 17
    BACKWARD_INPUT_TO_INPUT_WEIGHTS = 18
    BACKWARD_INPUT_TO_FORGET_WEIGHTS = 19
    BACKWARD_INPUT_TO_CELL_WEIGHTS = 20
    BACKWARD_INPUT_TO_OUTPUT_WEIGHTS = 21
    BACKWARD_RECURRENT_TO_INPUT_WEIGHTS = 22
    BACKWARD_RECURRENT_TO_FORGET_WEIGHTS = 23
    BACKWARD_RECURRENT_TO_CELL_WEIGHTS = 24
    BACKWARD_RECURRENT_TO_OUTPUT_WEIGHTS = 25
    BACKWARD_CELL_TO_INPUT_WEIGHTS = 26
    BACKWARD_CELL_TO_FORGET_WEIGHTS = 27
    BACKWARD_CELL_TO_OUTPUT_WEIGHTS = 28
    BACKWARD_INPUT_GATE_BIAS = 29
    BACKWARD_FORGET_GATE_BIAS = 30
    BACKWARD_CELL_BIAS = 31
    BACKWARD_OUTPUT_GATE_BIAS = 32
    BACKWARD_PROJECTION_WEIGHTS = 33
    BACKWARD_PROJECTION_BIAS = 34
    FORWARD_OUTPUT_STATE = 35
    FORWARD_CELL_STATE = 36
    BACKWARD_OUTPUT_STATE = 37
    BACKWARD_CELL_STATE = 38
    AUX_INPUT = 39
    """[batch, time, auxiliary size]."""
    FORWARD_AUX_TO_INPUT_WEIGHTS = 40
    FORWARD_AUX_TO_FORGET_WEIGHTS = 41
    FORWARD_AUX_TO_CELL_WEIGHTS = 42
    FORWARD_AUX_TO_OUTPUT_WEIGHTS = 43
    BACKWARD_AUX_TO_INPUT_WEIGHTS = 44
    BACKWARD_AUX_TO_FORGET_WEIGHTS = 45
    BACKWARD_AUX_TO_CELL_WEIGHTS = 46
    BACKWARD_AUX_TO_OUTPUT_WEIGHTS = 47
    ACTIVATION = 48
    CELL_CLIP = 49
    PROJECTION_CLIP = 50
    MERGE_OUTPUTS = 51
    """Whether both outputs are one, joined along the last axis."""
    TIME_MAJOR = 52
    FORWARD_INPUT_LAYER_NORM_WEIGHTS = 53
    FORWARD_FORGET_LAYER_NORM_WEIGHTS = 54
    FORWARD_CELL_LAYER_NORM_WEIGHTS = 55
    FORWARD_OUTPUT_LAYER_NORM_WEIGHTS = 56
    BACKWARD_INPUT_LAYER_NORM_WEIGHTS = 57
    BACKWARD_FORGET_LAYER_NORM_WEIGHTS = 58
    BACKWARD_CELL_LAYER_NORM_WEIGHTS = 59
    BACKWARD_OUTPUT_LAYER_NORM_WEIGHTS = 60


FORWARD = LstmInputs(
    Input.FORWARD_INPUT_TO_INPUT_WEIGHTS,
    Input.FORWARD_OUTPUT_STATE,
    Input.FORWARD_CELL_STATE,
    Input.FORWARD_INPUT_LAYER_NORM_WEIGHTS,
    Input.FORWARD_AUX_TO_INPUT_WEIGHTS,
)
BACKWARD = LstmInputs(
    Input.BACKWARD_INPUT_TO_INPUT_WEIGHTS,
    Input.BACKWARD_OUTPUT_STATE,
    Input.BACKWARD_CELL_STATE,
    Input.BACKWARD_INPUT_LAYER_NORM_WEIGHTS,
    Input.BACKWARD_AUX_TO_INPUT_WEIGHTS,
)


def validate(op: Signature) -> None:
    """Require float tensors. The four states as further outputs, and parallel linking, need feature level 4."""
    op.count(61, (1, 2, 1 + STATES, 2 + STATES), names=Input)
    main = op.tensor(Input.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, FORWARD, float_types(main))
    validate_cell(op, BACKWARD, float_types(main))
    op.tensor(Input.AUX_INPUT, {main: 3}, optional=True)
    note_parallel_linking(op, Input.AUX_INPUT, Input.FORWARD_AUX_TO_FORGET_WEIGHTS)
    op.scalar(Input.ACTIVATION, INT32)
    op.scalar(Input.CELL_CLIP, scalar_float(main))
    op.scalar(Input.PROJECTION_CLIP, scalar_float(main))
    op.scalar(Input.MERGE_OUTPUTS, BOOL)
    op.scalar(Input.TIME_MAJOR, BOOL)
    states = STATES if len(op.outputs) > STATES else 0
    validate_outputs(op, main, len(op.outputs) - states, states)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return forward and backward outputs, or both merged along the last axis, and the states if they are outputs."""
    lstm_activation_of(op, Input.ACTIVATION)
    require_clips(op, Input.CELL_CLIP, Input.PROJECTION_CLIP)
    axes = axes_of(op.boolean(Input.TIME_MAJOR))
    forward, backward = link_sizes(op, axes, Input.INPUT, Input.AUX_INPUT, linking(op))
    match_cell(op, FORWARD, forward)
    match_cell(op, BACKWARD, backward)
    sequences = merged_outputs(op, axes, forward, backward, op.boolean(Input.MERGE_OUTPUTS), STATES)
    return (*sequences, *state_dimensions(forward), *state_dimensions(backward))[: len(op.outputs)]


def linking(op: OperationContext) -> Linking:
    """Return how the auxiliary input is used. Every cell that reads it has weights from it to its forget gate."""
    return linking_of(op, Input.AUX_INPUT, Input.FORWARD_AUX_TO_FORGET_WEIGHTS, Input.BACKWARD_AUX_TO_FORGET_WEIGHTS)


BIDIRECTIONAL_SEQUENCE_LSTM = OperationDefinition(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, 3, validate, prepare)
