"""LSTM: one step of a long short-term memory cell."""

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
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import F16, F32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, input size]."""
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
    INPUT_LAYER_NORM_WEIGHTS = 23
    FORGET_LAYER_NORM_WEIGHTS = 24
    CELL_LAYER_NORM_WEIGHTS = 25
    OUTPUT_LAYER_NORM_WEIGHTS = 26


CELL = LstmInputs(
    Input.INPUT_TO_INPUT_WEIGHTS, Input.OUTPUT_STATE, Input.CELL_STATE, layer_norm=Input.INPUT_LAYER_NORM_WEIGHTS
)


def validate(op: Signature) -> None:
    """Require float tensors. The four layer normalisation weights need feature level 3, and are given all or none."""
    if op.count((23, 27), 4, names=Input) == 27:
        op.since(3)
    main = op.tensor(Input.INPUT, {F32: 1, F16: 3}, rank=2)
    validate_cell(op, CELL, float_types(main))
    op.scalar(Input.ACTIVATION, INT32)
    op.scalar(Input.CELL_CLIP, scalar_float(main))
    op.scalar(Input.PROJECTION_CLIP, scalar_float(main))
    for index in range(4):
        op.output(index, main, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scratch memory [batch, 4 * units] (3 * units with coupled gates), output state, cell state, output."""
    lstm_activation_of(op, Input.ACTIVATION)
    require_clips(op, Input.CELL_CLIP, Input.PROJECTION_CLIP)
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, "batch", "input size")
    coupled = match_cell(op, CELL, sizes)
    output_state, cell_state = state_dimensions(sizes)
    return (sizes["batch"], sizes["units"] * (3 if coupled else 4)), output_state, cell_state, output_state


LSTM = OperationDefinition(OperationType.LSTM, 1, validate, prepare)
