"""UNIDIRECTIONAL_SEQUENCE_LSTM: a long short-term memory cell over a sequence."""

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
from nnhal.operations._sequence import axes_of, validate_outputs
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import BOOL, F16, F32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, time, input size]."""
    INPUT_TO_INPUT_WEIGHTS = 1
    INPUT_TO_FORGET_WEIGHTS = 2
    INPUT_TO_CELL_WEIGHTS = 3
    INPUT_TO_OUTPUT_WEIGHTS = 4
    RECURRENT_TO_INPUT_WEIGHTS = 5
    RECURRENT_TO_FORGET_WEIGHTS = 6
    RECURRENT_TO_CELL_WEIGHTS = 7
    RECURRENT_TO_OUTPUT_WEIGHTS = 8
    CELL_TO_INPUT_WEIGHTS = 9
    CELL_TO_FORGET_WEIGHTS = 10
    CELL_TO_OUTPUT_WEIGHTS = 11
    INPUT_GATE_BIAS = 12
    FORGET_GATE_BIAS = 13
    CELL_BIAS = 14
    OUTPUT_GATE_BIAS = 15
    PROJECTION_WEIGHTS = 16
    PROJECTION_BIAS = 17
    OUTPUT_STATE = 18
    CELL_STATE = 19
    ACTIVATION = 20
    CELL_CLIP = 21
    PROJECTION_CLIP = 22
    TIME_MAJOR = 23
    INPUT_LAYER_NORM_WEIGHTS = 24
    FORGET_LAYER_NORM_WEIGHTS = 25
    CELL_LAYER_NORM_WEIGHTS = 26
    OUTPUT_LAYER_NORM_WEIGHTS = 27


CELL = LstmInputs(
    Input.INPUT_TO_INPUT_WEIGHTS, Input.OUTPUT_STATE, Input.CELL_STATE, layer_norm=Input.INPUT_LAYER_NORM_WEIGHTS
)


def validate(op: Signature) -> None:
    """Require float tensors. The two states as further outputs need feature level 4."""
    op.count(28, (1, 3), names=Input)
    main = op.tensor(Input.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, CELL, float_types(main))
    op.scalar(Input.ACTIVATION, INT32)
    op.scalar(Input.CELL_CLIP, scalar_float(main))
    op.scalar(Input.PROJECTION_CLIP, scalar_float(main))
    op.scalar(Input.TIME_MAJOR, BOOL)
    validate_outputs(op, main, sequences=1, states=len(op.outputs) - 1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the output in the input's order of axes, and output state and cell state if they are outputs."""
    lstm_activation_of(op, Input.ACTIVATION)
    require_clips(op, Input.CELL_CLIP, Input.PROJECTION_CLIP)
    axes = axes_of(op.boolean(Input.TIME_MAJOR))
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, *axes, "input size")
    match_cell(op, CELL, sizes)
    return (sizes.of(*axes, "output size"), *state_dimensions(sizes))[: len(op.outputs)]


UNIDIRECTIONAL_SEQUENCE_LSTM = OperationDefinition(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, 3, validate, prepare)
