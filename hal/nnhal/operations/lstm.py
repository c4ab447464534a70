"""LSTM cells: one step of float32, float16 or 8-bit values, and sequences of steps.

LSTM: one step of a long short-term memory cell.

UNIDIRECTIONAL_SEQUENCE_LSTM: a long short-term memory cell over a sequence.

BIDIRECTIONAL_SEQUENCE_LSTM: two long short-term memory cells over a sequence, one from its end to its start.

QUANTIZED_16BIT_LSTM: one step of a long short-term memory cell with a 16-bit state and fixed quantisation.

QUANTIZED_LSTM: one step of a long short-term memory cell in integers, with all optional parts of LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import isclose, log2
from typing import NamedTuple

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.operand_types import BOOL, F16, F32, FLOAT32, I32, INT32, Q8A, Q8AS, Q8S, Q16S, scalar_float
from nnhal.operations.sequences import (
    Linking,
    axes_of,
    link_sizes,
    linking_of,
    merged_outputs,
    note_parallel_linking,
    validate_outputs,
)
from nnhal.operations.sizes import Sizes
from nnhal.operations.work import of_gates
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions


class LstmActivation(IntEnum):
    """The activation of a cell. The numbers differ from those of fused activations."""

    NONE = 0
    RELU = 1
    RELU6 = 3
    TANH = 4
    SIGMOID = 6


class CellTypes(NamedTuple):
    """The operand types of a cell."""

    weights: OperandType
    """The type of input, recurrent, auxiliary and projection weights."""
    peephole: OperandType
    """The type of peephole weights."""
    bias: OperandType
    """The type of the gates' biases and of the projection bias."""
    layer_norm: OperandType
    """The type of layer normalisation weights."""
    output_state: OperandType
    """The type of the output state."""
    cell_state: OperandType
    """The type of the cell state."""


@dataclass(frozen=True, slots=True)
class LstmInputs:
    """The positions of one LSTM cell's operands among an operation's inputs."""

    first: int
    """From here on: 4 input weights, 4 recurrent weights, 3 peepholes, 4 biases, the projection and its bias."""
    output_state: int
    """The output state of the previous step."""
    cell_state: int
    """The cell state of the previous step."""
    layer_norm: int
    """The first of four layer normalisation weights."""
    aux_weights: int | None = None
    """The first of four weights for an auxiliary input; None if the operation has no such input."""

    @property
    def input_weights(self) -> range:
        """[units, input size] each."""
        return range(self.first, self.first + 4)

    @property
    def recurrent_weights(self) -> range:
        """[units, output size] each."""
        return range(self.first + 4, self.first + 8)

    @property
    def peepholes(self) -> range:
        """[units] each; of the input, forget and output gate."""
        return range(self.first + 8, self.first + 11)

    @property
    def biases(self) -> range:
        """[units] each."""
        return range(self.first + 11, self.first + 15)

    @property
    def projection(self) -> int:
        """[output size, units]."""
        return self.first + 15

    @property
    def projection_bias(self) -> int:
        """[output size]."""
        return self.first + 16

    @property
    def layer_norms(self) -> range:
        """[units] each."""
        return range(self.layer_norm, self.layer_norm + 4)

    @property
    def all_aux_weights(self) -> range:
        """[units, auxiliary size] each; empty if the operation has no auxiliary input."""
        return range(0) if self.aux_weights is None else range(self.aux_weights, self.aux_weights + 4)


def float_types(main: OperandType) -> CellTypes:
    """Return the types of a cell whose operands all have one float type."""
    return CellTypes(main, main, main, main, main, main)


def validate_cell(op: Signature, cell: LstmInputs, types: CellTypes) -> None:
    """Check the types of a cell's operands, and the ranks of the operands that are not optional."""
    for index in (*cell.input_weights[1:], *cell.recurrent_weights[1:]):
        op.tensor(index, {types.weights: 1}, rank=2)
    for index in cell.biases[1:]:
        op.tensor(index, {types.bias: 1}, rank=1)
    op.tensor(cell.output_state, {types.output_state: 1}, rank=2)
    op.tensor(cell.cell_state, {types.cell_state: 1}, rank=2)
    _optional(op, types.weights, cell.input_weights[0], cell.recurrent_weights[0], cell.projection)
    _optional(op, types.weights, *cell.all_aux_weights)
    _optional(op, types.peephole, *cell.peepholes)
    _optional(op, types.bias, cell.biases[0], cell.projection_bias)
    _optional(op, types.layer_norm, *cell.layer_norms)


def match_cell(op: OperationContext, cell: LstmInputs, sizes: Sizes) -> bool:
    """Check that a cell's operands are complete and their dimensions agree. Return whether the gates are coupled.

    ``sizes`` knows the batch and the input size (and the auxiliary size), and learns the units and the output size.
    """
    members = [op.given(group[0]) for group in (cell.input_weights, cell.recurrent_weights, cell.biases)]
    if any(members) and not all(members):
        op.refuse(
            "input weights, recurrent weights and bias of the input gate: some are left out, "
            "expected all or none of them"
        )
    first = 0 if all(members) else 1
    for index in cell.input_weights[first:]:
        sizes.learn(index, "units", "input size")
    for index in cell.recurrent_weights[first:]:
        sizes.learn(index, "units", "output size")
    for index in cell.biases[first:]:
        sizes.learn(index, "units")
    for name, group, axes in (
        ("peephole weights", cell.peepholes, ("units",)),
        ("layer normalisation weights", cell.layer_norms, ("units",)),
        ("auxiliary weights", cell.all_aux_weights, ("units", "auxiliary size")),
    ):
        for index in _given_group(op, name, group, first):
            sizes.learn(index, *axes)
    _match_projection(op, cell, sizes)
    sizes.learn(cell.output_state, "batch", "output size")
    sizes.learn(cell.cell_state, "batch", "units")
    return first == 1


def state_dimensions(sizes: Sizes) -> tuple[Dimensions, Dimensions]:
    """Return the dimensions of a cell's output state and cell state."""
    return sizes.of("batch", "output size"), sizes.of("batch", "units")


def lstm_activation_of(op: OperationContext, index: int) -> LstmActivation:
    """Return the value of a cell's activation input."""
    code = op.integer(index)
    if code not in LstmActivation.__members__.values():
        op.refuse(f"activation {code}, expected {', '.join(f'{a.value} ({a.name})' for a in LstmActivation)}")
    return LstmActivation(code)


def require_clips(op: OperationContext, *indexes: int) -> None:
    """Refuse a clipping threshold below 0. A threshold of 0 clips nothing."""
    for index in indexes:
        if not op.real(index) >= 0:
            op.refuse(f"input {index} is the clipping threshold {op.real(index)}, expected 0 or more")


def _optional(op: Signature, type: OperandType, *indexes: int) -> None:  # noqa: A002
    for index in indexes:
        if index < len(op.inputs):
            op.tensor(index, {type: 1}, optional=True)


def _given_group(op: OperationContext, name: str, group: range, first: int) -> range:
    """Return the operands of an optional group, which is given whole or not at all.

    ``first`` is 1 if the cell has no input gate of its own.
    """
    needed = group[first:]
    given = [op.given(index) for index in needed]
    if any(given) and not all(given):
        op.refuse(f"{name}: some are left out, expected all or none of them")
    if first and group and op.given(group[0]):
        op.refuse(f"{name}: got one for the input gate, expected none, since the gate is coupled to the forget gate")
    return needed if any(given) else range(0)


def _match_projection(op: OperationContext, cell: LstmInputs, sizes: Sizes) -> None:
    if op.given(cell.projection):
        sizes.learn(cell.projection, "output size", "units")
        if op.given(cell.projection_bias):
            sizes.learn(cell.projection_bias, "output size")
        return
    if op.given(cell.projection_bias):
        op.refuse("got a projection bias without projection weights, expected both or no bias")
    sizes.require("output size", sizes["units"], "a cell without projection")


class LstmInput(IntEnum):
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
    LstmInput.INPUT_TO_INPUT_WEIGHTS,
    LstmInput.OUTPUT_STATE,
    LstmInput.CELL_STATE,
    layer_norm=LstmInput.INPUT_LAYER_NORM_WEIGHTS,
)


def validate_lstm(op: Signature) -> None:
    """Require float tensors. The four layer normalisation weights need feature level 3, and are given all or none."""
    if op.count((23, 27), 4, names=LstmInput) == 27:
        op.since(3)
    main = op.tensor(LstmInput.INPUT, {F32: 1, F16: 3}, rank=2)
    validate_cell(op, CELL, float_types(main))
    op.scalar(LstmInput.ACTIVATION, INT32)
    op.scalar(LstmInput.CELL_CLIP, scalar_float(main))
    op.scalar(LstmInput.PROJECTION_CLIP, scalar_float(main))
    for index in range(4):
        op.output(index, main, rank=2)


def prepare_lstm(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scratch memory [batch, 4 * units] (3 * units with coupled gates), output state, cell state, output."""
    lstm_activation_of(op, LstmInput.ACTIVATION)
    require_clips(op, LstmInput.CELL_CLIP, LstmInput.PROJECTION_CLIP)
    sizes = Sizes(op)
    sizes.learn(LstmInput.INPUT, "batch", "input size")
    coupled = match_cell(op, CELL, sizes)
    output_state, cell_state = state_dimensions(sizes)
    return (sizes["batch"], sizes["units"] * (3 if coupled else 4)), output_state, cell_state, output_state


LSTM = OperationDefinition(OperationType.LSTM, 1, validate_lstm, prepare_lstm, work=of_gates)


class UnidirectionalSequenceLstmInput(IntEnum):
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


UNIDIRECTIONAL_SEQUENCE_LSTM_CELL = LstmInputs(
    UnidirectionalSequenceLstmInput.INPUT_TO_INPUT_WEIGHTS,
    UnidirectionalSequenceLstmInput.OUTPUT_STATE,
    UnidirectionalSequenceLstmInput.CELL_STATE,
    layer_norm=UnidirectionalSequenceLstmInput.INPUT_LAYER_NORM_WEIGHTS,
)


def validate_unidirectional_sequence_lstm(op: Signature) -> None:
    """Require float tensors. The two states as further outputs need feature level 4."""
    op.count(28, (1, 3), names=UnidirectionalSequenceLstmInput)
    main = op.tensor(UnidirectionalSequenceLstmInput.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL, float_types(main))
    op.scalar(UnidirectionalSequenceLstmInput.ACTIVATION, INT32)
    op.scalar(UnidirectionalSequenceLstmInput.CELL_CLIP, scalar_float(main))
    op.scalar(UnidirectionalSequenceLstmInput.PROJECTION_CLIP, scalar_float(main))
    op.scalar(UnidirectionalSequenceLstmInput.TIME_MAJOR, BOOL)
    validate_outputs(op, main, sequences=1, states=len(op.outputs) - 1)


def prepare_unidirectional_sequence_lstm(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the output in the input's order of axes, and output state and cell state if they are outputs."""
    lstm_activation_of(op, UnidirectionalSequenceLstmInput.ACTIVATION)
    require_clips(op, UnidirectionalSequenceLstmInput.CELL_CLIP, UnidirectionalSequenceLstmInput.PROJECTION_CLIP)
    axes = axes_of(op.boolean(UnidirectionalSequenceLstmInput.TIME_MAJOR))
    sizes = Sizes(op)
    sizes.learn(UnidirectionalSequenceLstmInput.INPUT, *axes, "input size")
    match_cell(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL, sizes)
    return (sizes.of(*axes, "output size"), *state_dimensions(sizes))[: len(op.outputs)]


UNIDIRECTIONAL_SEQUENCE_LSTM = OperationDefinition(
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
    3,
    validate_unidirectional_sequence_lstm,
    prepare_unidirectional_sequence_lstm,
    work=of_gates,
)


STATES = 4
"""The number of states: output state and cell state, forward and backward."""


class BidirectionalSequenceLstmInput(IntEnum):
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
    """True if both outputs are one, joined along the last axis."""
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
    BidirectionalSequenceLstmInput.FORWARD_INPUT_TO_INPUT_WEIGHTS,
    BidirectionalSequenceLstmInput.FORWARD_OUTPUT_STATE,
    BidirectionalSequenceLstmInput.FORWARD_CELL_STATE,
    BidirectionalSequenceLstmInput.FORWARD_INPUT_LAYER_NORM_WEIGHTS,
    BidirectionalSequenceLstmInput.FORWARD_AUX_TO_INPUT_WEIGHTS,
)
BACKWARD = LstmInputs(
    BidirectionalSequenceLstmInput.BACKWARD_INPUT_TO_INPUT_WEIGHTS,
    BidirectionalSequenceLstmInput.BACKWARD_OUTPUT_STATE,
    BidirectionalSequenceLstmInput.BACKWARD_CELL_STATE,
    BidirectionalSequenceLstmInput.BACKWARD_INPUT_LAYER_NORM_WEIGHTS,
    BidirectionalSequenceLstmInput.BACKWARD_AUX_TO_INPUT_WEIGHTS,
)


def validate_bidirectional_sequence_lstm(op: Signature) -> None:
    """Require float tensors. The four states as further outputs, and parallel linking, need feature level 4."""
    op.count(61, (1, 2, 1 + STATES, 2 + STATES), names=BidirectionalSequenceLstmInput)
    main = op.tensor(BidirectionalSequenceLstmInput.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, FORWARD, float_types(main))
    validate_cell(op, BACKWARD, float_types(main))
    op.tensor(BidirectionalSequenceLstmInput.AUX_INPUT, {main: 3}, optional=True)
    note_parallel_linking(
        op, BidirectionalSequenceLstmInput.AUX_INPUT, BidirectionalSequenceLstmInput.FORWARD_AUX_TO_FORGET_WEIGHTS
    )
    op.scalar(BidirectionalSequenceLstmInput.ACTIVATION, INT32)
    op.scalar(BidirectionalSequenceLstmInput.CELL_CLIP, scalar_float(main))
    op.scalar(BidirectionalSequenceLstmInput.PROJECTION_CLIP, scalar_float(main))
    op.scalar(BidirectionalSequenceLstmInput.MERGE_OUTPUTS, BOOL)
    op.scalar(BidirectionalSequenceLstmInput.TIME_MAJOR, BOOL)
    states = STATES if len(op.outputs) > STATES else 0
    validate_outputs(op, main, len(op.outputs) - states, states)


def prepare_bidirectional_sequence_lstm(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return forward and backward outputs, or both merged along the last axis, and the states if they are outputs."""
    lstm_activation_of(op, BidirectionalSequenceLstmInput.ACTIVATION)
    require_clips(op, BidirectionalSequenceLstmInput.CELL_CLIP, BidirectionalSequenceLstmInput.PROJECTION_CLIP)
    axes = axes_of(op.boolean(BidirectionalSequenceLstmInput.TIME_MAJOR))
    forward, backward = link_sizes(
        op, axes, BidirectionalSequenceLstmInput.INPUT, BidirectionalSequenceLstmInput.AUX_INPUT, linking(op)
    )
    match_cell(op, FORWARD, forward)
    match_cell(op, BACKWARD, backward)
    sequences = merged_outputs(
        op, axes, forward, backward, op.boolean(BidirectionalSequenceLstmInput.MERGE_OUTPUTS), STATES
    )
    return (*sequences, *state_dimensions(forward), *state_dimensions(backward))[: len(op.outputs)]


def linking(op: OperationContext) -> Linking:
    """Return how the auxiliary input is used. Every cell that reads it has weights from it to its forget gate."""
    return linking_of(
        op,
        BidirectionalSequenceLstmInput.AUX_INPUT,
        BidirectionalSequenceLstmInput.FORWARD_AUX_TO_FORGET_WEIGHTS,
        BidirectionalSequenceLstmInput.BACKWARD_AUX_TO_FORGET_WEIGHTS,
    )


BIDIRECTIONAL_SEQUENCE_LSTM = OperationDefinition(
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
    3,
    validate_bidirectional_sequence_lstm,
    prepare_bidirectional_sequence_lstm,
    work=of_gates,
)


class Quantized16bitLstmInput(IntEnum):
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


INPUT_WEIGHTS = range(
    Quantized16bitLstmInput.INPUT_TO_INPUT_WEIGHTS, Quantized16bitLstmInput.RECURRENT_TO_INPUT_WEIGHTS
)
RECURRENT_WEIGHTS = range(Quantized16bitLstmInput.RECURRENT_TO_INPUT_WEIGHTS, Quantized16bitLstmInput.INPUT_GATE_BIAS)
BIASES = range(Quantized16bitLstmInput.INPUT_GATE_BIAS, Quantized16bitLstmInput.CELL_STATE)

VALUES = (1 / 128, 128)
"""Scale and zero point of input and output."""
QUANTIZED_16BIT_LSTM_CELL = (2**-11, 0)
"""Scale and zero point of the cell state."""
_QUANTIZED_16BIT_LSTM_ROUNDING = 1e-3  # the tolerance for the biases' scale, which models give in rounded decimals


def validate_quantized_16bit_lstm(op: Signature) -> None:
    """Check the types. Preparation checks the quantisation."""
    op.count(15, 2, names=Quantized16bitLstmInput)
    op.tensor(Quantized16bitLstmInput.INPUT, {Q8A: 3}, rank=2)
    for index in (*INPUT_WEIGHTS, *RECURRENT_WEIGHTS):
        op.tensor(index, {Q8A: 3}, rank=2)
    for index in BIASES:
        op.tensor(index, {I32: 3}, rank=1)
    op.tensor(Quantized16bitLstmInput.CELL_STATE, {Q16S: 3}, rank=2)
    op.tensor(Quantized16bitLstmInput.OUTPUT_STATE, {Q8A: 3}, rank=2)
    op.output(0, Q16S, rank=2)
    op.output(1, Q8A, rank=2)


def prepare_quantized_16bit_lstm(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of cell state and output, both [batch, output size]."""
    _require_quantization(op)
    sizes = Sizes(op)
    sizes.learn(Quantized16bitLstmInput.INPUT, "batch", "input size")
    for index in INPUT_WEIGHTS:
        sizes.learn(index, "output size", "input size")
    for index in RECURRENT_WEIGHTS:
        sizes.learn(index, "output size", "output size")
    for index in BIASES:
        sizes.learn(index, "output size")
    sizes.learn(Quantized16bitLstmInput.CELL_STATE, "batch", "output size")
    sizes.learn(Quantized16bitLstmInput.OUTPUT_STATE, "batch", "output size")
    dimensions = sizes.of("batch", "output size")
    return dimensions, dimensions


def _require_quantization(op: OperationContext) -> None:
    weights = op.inputs[Quantized16bitLstmInput.INPUT_TO_INPUT_WEIGHTS]
    bias_scale = op.inputs[Quantized16bitLstmInput.INPUT].scale * weights.scale
    _require(op, "input", op.inputs[Quantized16bitLstmInput.INPUT], VALUES)
    _require(op, "output state", op.inputs[Quantized16bitLstmInput.OUTPUT_STATE], VALUES)
    _require(op, "cell state", op.inputs[Quantized16bitLstmInput.CELL_STATE], QUANTIZED_16BIT_LSTM_CELL)
    _require(op, "output 0", op.outputs[0], QUANTIZED_16BIT_LSTM_CELL)
    _require(op, "output 1", op.outputs[1], VALUES)
    for index in (*INPUT_WEIGHTS, *RECURRENT_WEIGHTS):
        _require(op, f"input {index}", op.inputs[index], (weights.scale, weights.zero_point))
    for index in BIASES:
        if not isclose(op.inputs[index].scale, bias_scale, rel_tol=_QUANTIZED_16BIT_LSTM_ROUNDING):
            op.refuse(
                f"bias {index} has scale {op.inputs[index].scale}, expected {bias_scale}: input scale x weights scale"
            )


def _require(op: OperationContext, what: str, operand: Operand, expected: tuple[float, int]) -> None:
    if (operand.scale, operand.zero_point) != expected:
        op.refuse(f"{what} has scale and zero point {(operand.scale, operand.zero_point)}, expected {expected}")


QUANTIZED_16BIT_LSTM = OperationDefinition(
    OperationType.QUANTIZED_16BIT_LSTM, 3, validate_quantized_16bit_lstm, prepare_quantized_16bit_lstm, work=of_gates
)


class QuantizedLstmInput(IntEnum):
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


QUANTIZED_LSTM_CELL = LstmInputs(
    QuantizedLstmInput.INPUT_TO_INPUT_WEIGHTS,
    QuantizedLstmInput.OUTPUT_STATE,
    QuantizedLstmInput.CELL_STATE,
    layer_norm=QuantizedLstmInput.INPUT_LAYER_NORM_WEIGHTS,
)
TYPES = CellTypes(weights=Q8S, peephole=Q16S, bias=I32, layer_norm=Q16S, output_state=Q8AS, cell_state=Q16S)
INTERMEDIATE_SCALES = range(QuantizedLstmInput.INPUT_INTERMEDIATE_SCALE, QuantizedLstmInput.HIDDEN_STATE_ZERO_POINT)
_QUANTIZED_LSTM_ROUNDING = 1e-3  # the tolerance for the cell state's scale, which models give in rounded decimals


def validate_quantized_lstm(op: Signature) -> None:
    """Check the types. The same operands are optional as in LSTM."""
    op.count(32, 3, names=QuantizedLstmInput)
    op.tensor(QuantizedLstmInput.INPUT, {Q8AS: 4}, rank=2)
    validate_cell(op, QUANTIZED_LSTM_CELL, TYPES)
    op.scalar(QuantizedLstmInput.CELL_CLIP, FLOAT32)
    op.scalar(QuantizedLstmInput.PROJECTION_CLIP, FLOAT32)
    for index in INTERMEDIATE_SCALES:
        op.scalar(index, FLOAT32)
    op.scalar(QuantizedLstmInput.HIDDEN_STATE_ZERO_POINT, INT32)
    op.scalar(QuantizedLstmInput.HIDDEN_STATE_SCALE, FLOAT32)
    op.output(0, Q8AS, rank=2)
    op.output(1, Q16S, rank=2)
    op.output(2, Q8AS, rank=2)


def prepare_quantized_lstm(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of output state, cell state and output."""
    require_clips(op, QuantizedLstmInput.CELL_CLIP, QuantizedLstmInput.PROJECTION_CLIP)
    cell_exponent(op)
    sizes = Sizes(op)
    sizes.learn(QuantizedLstmInput.INPUT, "batch", "input size")
    coupled = match_cell(op, QUANTIZED_LSTM_CELL, sizes)
    _require_scales(op, coupled)
    output_state, cell_state = state_dimensions(sizes)
    return output_state, cell_state, output_state


def cell_exponent(op: OperationContext) -> int:
    """Return the exponent of the cell state's scale, a power of two: -15 (holds reals below 1) to -9 (below 64)."""
    scale = op.inputs[QuantizedLstmInput.CELL_STATE].scale
    exponent = round(log2(scale))
    if abs(log2(scale) - exponent) > _QUANTIZED_LSTM_ROUNDING or not -15 <= exponent <= -9:
        op.refuse(f"the cell state has scale {scale}, expected a power of two from 2**-15 to 2**-9")
    return exponent


def _require_scales(op: OperationContext, coupled: bool) -> None:
    needed = [QuantizedLstmInput.HIDDEN_STATE_SCALE.value]
    if op.given(QuantizedLstmInput.FORGET_LAYER_NORM_WEIGHTS):
        needed += INTERMEDIATE_SCALES[1 if coupled else 0 :]
    for index in needed:
        if not 0 < op.real(index) < float("inf"):
            op.refuse(f"input {index} is the scale {op.real(index)}, expected a finite number above 0")
    zero_point = op.integer(QuantizedLstmInput.HIDDEN_STATE_ZERO_POINT)
    if not -128 <= zero_point <= 127:
        op.refuse(f"the hidden state has zero point {zero_point}, expected -128 to 127")


QUANTIZED_LSTM = OperationDefinition(
    OperationType.QUANTIZED_LSTM, 4, validate_quantized_lstm, prepare_quantized_lstm, work=of_gates
)
