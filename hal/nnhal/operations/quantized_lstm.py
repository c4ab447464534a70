"""QUANTIZED_LSTM: one step of a long short-term memory cell in integers, with all optional parts of LSTM."""

from __future__ import annotations

from enum import IntEnum
from math import log2

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._lstm import (
    CellTypes,
    LstmInputs,
    match_cell,
    require_clips,
    state_dimensions,
    validate_cell,
)
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import FLOAT32, I32, INT32, Q8AS, Q8S, Q16S
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
    INPUT_LAYER_NORM_WEIGHTS = 20
    FORGET_LAYER_NORM_WEIGHTS = 21
    CELL_LAYER_NORM_WEIGHTS = 22
    OUTPUT_LAYER_NORM_WEIGHTS = 23
    CELL_CLIP = 24
    PROJECTION_CLIP = 25
    INPUT_INTERMEDIATE_SCALE = 26
    """Of the input gate before its layer normalisation."""
    FORGET_INTERMEDIATE_SCALE = 27
    """Of the forget gate before its layer normalisation."""
    CELL_INTERMEDIATE_SCALE = 28
    """Of the cell's update before its layer normalisation."""
    OUTPUT_INTERMEDIATE_SCALE = 29
    """Of the output gate before its layer normalisation."""
    HIDDEN_STATE_ZERO_POINT = 30
    """Of the output before the projection."""
    HIDDEN_STATE_SCALE = 31
    """Of the output before the projection."""


CELL = LstmInputs(
    Input.INPUT_TO_INPUT_WEIGHTS, Input.OUTPUT_STATE, Input.CELL_STATE, layer_norm=Input.INPUT_LAYER_NORM_WEIGHTS
)
TYPES = CellTypes(weights=Q8S, peephole=Q16S, bias=I32, layer_norm=Q16S, output_state=Q8AS, cell_state=Q16S)
INTERMEDIATE_SCALES = range(Input.INPUT_INTERMEDIATE_SCALE, Input.HIDDEN_STATE_ZERO_POINT)
_ROUNDING = 1e-3  # the tolerance for the cell state's scale, which models give in rounded decimals


def validate(op: Signature) -> None:
    """Check the types. The same operands are optional as in LSTM."""
    op.count(32, 3, names=Input)
    op.tensor(Input.INPUT, {Q8AS: 4}, rank=2)
    validate_cell(op, CELL, TYPES)
    op.scalar(Input.CELL_CLIP, FLOAT32)
    op.scalar(Input.PROJECTION_CLIP, FLOAT32)
    for index in INTERMEDIATE_SCALES:
        op.scalar(index, FLOAT32)
    op.scalar(Input.HIDDEN_STATE_ZERO_POINT, INT32)
    op.scalar(Input.HIDDEN_STATE_SCALE, FLOAT32)
    op.output(0, Q8AS, rank=2)
    op.output(1, Q16S, rank=2)
    op.output(2, Q8AS, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of output state, cell state and output."""
    require_clips(op, Input.CELL_CLIP, Input.PROJECTION_CLIP)
    cell_exponent(op)
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, "batch", "input size")
    coupled = match_cell(op, CELL, sizes)
    _require_scales(op, coupled)
    output_state, cell_state = state_dimensions(sizes)
    return output_state, cell_state, output_state


def cell_exponent(op: OperationContext) -> int:
    """Return the exponent of the cell state's scale, a power of two: -15 (holds reals below 1) to -9 (below 64)."""
    scale = op.inputs[Input.CELL_STATE].scale
    exponent = round(log2(scale))
    if abs(log2(scale) - exponent) > _ROUNDING or not -15 <= exponent <= -9:
        op.refuse(f"the cell state has scale {scale}, expected a power of two from 2**-15 to 2**-9")
    return exponent


def _require_scales(op: OperationContext, coupled: bool) -> None:
    needed = [Input.HIDDEN_STATE_SCALE.value]
    if op.given(Input.FORGET_LAYER_NORM_WEIGHTS):
        needed += INTERMEDIATE_SCALES[1 if coupled else 0 :]
    for index in needed:
        if not 0 < op.real(index) < float("inf"):
            op.refuse(f"input {index} is the scale {op.real(index)}, expected a finite number above 0")
    zero_point = op.integer(Input.HIDDEN_STATE_ZERO_POINT)
    if not -128 <= zero_point <= 127:
        op.refuse(f"the hidden state has zero point {zero_point}, expected -128 to 127")


QUANTIZED_LSTM = OperationDefinition(OperationType.QUANTIZED_LSTM, 4, validate, prepare)
