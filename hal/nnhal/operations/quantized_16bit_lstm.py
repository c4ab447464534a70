"""QUANTIZED_16BIT_LSTM: one step of a long short-term memory cell with a 16-bit state and fixed quantisation."""

from __future__ import annotations

from enum import IntEnum
from math import isclose

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import I32, Q8A, Q16S
from nnhal.types import Operand, OperationType
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
    INPUT_GATE_BIAS = 9
    FORGET_GATE_BIAS = 10
    CELL_BIAS = 11
    OUTPUT_GATE_BIAS = 12
    CELL_STATE = 13
    OUTPUT_STATE = 14


INPUT_WEIGHTS = range(Input.INPUT_TO_INPUT_WEIGHTS, Input.RECURRENT_TO_INPUT_WEIGHTS)
RECURRENT_WEIGHTS = range(Input.RECURRENT_TO_INPUT_WEIGHTS, Input.INPUT_GATE_BIAS)
BIASES = range(Input.INPUT_GATE_BIAS, Input.CELL_STATE)

VALUES = (1 / 128, 128)
"""Scale and zero point of input and output."""
CELL = (2**-11, 0)
"""Scale and zero point of the cell state."""
_ROUNDING = 1e-3  # the tolerance for the biases' scale, which models give in rounded decimals


def validate(op: Signature) -> None:
    """Check the types. Preparation checks the quantisation."""
    op.count(15, 2, names=Input)
    op.tensor(Input.INPUT, {Q8A: 3}, rank=2)
    for index in (*INPUT_WEIGHTS, *RECURRENT_WEIGHTS):
        op.tensor(index, {Q8A: 3}, rank=2)
    for index in BIASES:
        op.tensor(index, {I32: 3}, rank=1)
    op.tensor(Input.CELL_STATE, {Q16S: 3}, rank=2)
    op.tensor(Input.OUTPUT_STATE, {Q8A: 3}, rank=2)
    op.output(0, Q16S, rank=2)
    op.output(1, Q8A, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of cell state and output, both [batch, output size]."""
    _require_quantization(op)
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, "batch", "input size")
    for index in INPUT_WEIGHTS:
        sizes.learn(index, "output size", "input size")
    for index in RECURRENT_WEIGHTS:
        sizes.learn(index, "output size", "output size")
    for index in BIASES:
        sizes.learn(index, "output size")
    sizes.learn(Input.CELL_STATE, "batch", "output size")
    sizes.learn(Input.OUTPUT_STATE, "batch", "output size")
    dimensions = sizes.of("batch", "output size")
    return dimensions, dimensions


def _require_quantization(op: OperationContext) -> None:
    weights = op.inputs[Input.INPUT_TO_INPUT_WEIGHTS]
    bias_scale = op.inputs[Input.INPUT].scale * weights.scale
    _require(op, "input", op.inputs[Input.INPUT], VALUES)
    _require(op, "output state", op.inputs[Input.OUTPUT_STATE], VALUES)
    _require(op, "cell state", op.inputs[Input.CELL_STATE], CELL)
    _require(op, "output 0", op.outputs[0], CELL)
    _require(op, "output 1", op.outputs[1], VALUES)
    for index in (*INPUT_WEIGHTS, *RECURRENT_WEIGHTS):
        _require(op, f"input {index}", op.inputs[index], (weights.scale, weights.zero_point))
    for index in BIASES:
        if not isclose(op.inputs[index].scale, bias_scale, rel_tol=_ROUNDING):
            op.refuse(
                f"bias {index} has scale {op.inputs[index].scale}, expected {bias_scale}: input scale x weights scale"
            )


def _require(op: OperationContext, what: str, operand: Operand, expected: tuple[float, int]) -> None:
    if (operand.scale, operand.zero_point) != expected:
        op.refuse(f"{what} has scale and zero point {(operand.scale, operand.zero_point)}, expected {expected}")


QUANTIZED_16BIT_LSTM = OperationDefinition(OperationType.QUANTIZED_16BIT_LSTM, 3, validate, prepare)
