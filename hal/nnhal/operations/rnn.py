"""Recurrent cells without gates: RNN, its sequences, and SVDF.

RNN: one step of a basic recurrent cell.

UNIDIRECTIONAL_SEQUENCE_RNN: a basic recurrent cell over a sequence.

BIDIRECTIONAL_SEQUENCE_RNN: two basic recurrent cells over a sequence, one from its end to its start.

SVDF: a layer of filters over features and time.
Each filter is the product of feature weights and time weights, found by singular value decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.operand_types import BOOL, F16, F32, INT32
from nnhal.operations.operands import Inputs, same, scalar, signature, tensor
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
from nnhal.operations.windows import activation_of
from nnhal.operations.work import of_filtered_features, of_gates
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class RnnInputs:
    """The positions of one RNN cell's operands: from ``first`` on, weights, recurrent weights, bias and state."""

    first: int
    aux_weights: int | None = None

    @property
    def weights(self) -> int:
        """[units, input size]."""
        return self.first

    @property
    def recurrent_weights(self) -> int:
        """[units, units]."""
        return self.first + 1

    @property
    def bias(self) -> int:
        """[units]."""
        return self.first + 2

    @property
    def state(self) -> int:
        """[batch, units]."""
        return self.first + 3


def validate_cell(op: Signature, cell: RnnInputs, main: OperandType) -> None:
    """Check the types of a cell's operands, and the ranks of the operands that are not optional."""
    for index, rank in ((cell.weights, 2), (cell.recurrent_weights, 2), (cell.bias, 1), (cell.state, 2)):
        op.tensor(index, {main: 1}, rank=rank)
    if cell.aux_weights is not None:
        op.tensor(cell.aux_weights, {main: 1}, optional=True)


def match_cell(op: OperationContext, cell: RnnInputs, sizes: Sizes) -> None:
    """Check that the dimensions of a cell's operands agree.

    ``sizes`` knows the batch and the input size (and the auxiliary size), and learns the output size: the units.
    """
    sizes.learn(cell.weights, "output size", "input size")
    sizes.learn(cell.recurrent_weights, "output size", "output size")
    sizes.learn(cell.bias, "output size")
    sizes.learn(cell.state, "batch", "output size")
    if cell.aux_weights is not None and op.given(cell.aux_weights):
        sizes.learn(cell.aux_weights, "output size", "auxiliary size")


class RnnInput(IntEnum):
    INPUT = 0
    """[batch, input size]."""
    WEIGHTS = 1
    RECURRENT_WEIGHTS = 2
    BIAS = 3
    STATE = 4
    ACTIVATION = 5


CELL = RnnInputs(RnnInput.WEIGHTS)


def validate_rnn(op: Signature) -> None:
    op.count(6, 2, names=RnnInput)
    main = op.tensor(RnnInput.INPUT, {F32: 1, F16: 3}, rank=2)
    validate_cell(op, CELL, main)
    op.scalar(RnnInput.ACTIVATION, INT32)
    op.output(0, main, rank=2)
    op.output(1, main, rank=2)


def prepare_rnn(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of state and output, both [batch, units]."""
    activation_of(op, RnnInput.ACTIVATION)
    sizes = Sizes(op)
    sizes.learn(RnnInput.INPUT, "batch", "input size")
    match_cell(op, CELL, sizes)
    dimensions = sizes.of("batch", "output size")
    return dimensions, dimensions


RNN = OperationDefinition(OperationType.RNN, 1, validate_rnn, prepare_rnn, work=of_gates)


class UnidirectionalSequenceRnnInput(IntEnum):
    INPUT = 0
    """[batch, time, input size]."""
    WEIGHTS = 1
    RECURRENT_WEIGHTS = 2
    BIAS = 3
    STATE = 4
    ACTIVATION = 5
    TIME_MAJOR = 6


UNIDIRECTIONAL_SEQUENCE_RNN_CELL = RnnInputs(UnidirectionalSequenceRnnInput.WEIGHTS)


def validate_unidirectional_sequence_rnn(op: Signature) -> None:
    """Require float tensors. The state as a second output needs feature level 4."""
    op.count(7, (1, 2), names=UnidirectionalSequenceRnnInput)
    main = op.tensor(UnidirectionalSequenceRnnInput.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL, main)
    op.scalar(UnidirectionalSequenceRnnInput.ACTIVATION, INT32)
    op.scalar(UnidirectionalSequenceRnnInput.TIME_MAJOR, INT32)
    validate_outputs(op, main, sequences=1, states=len(op.outputs) - 1)


def prepare_unidirectional_sequence_rnn(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the output in the input's order of axes, and the state if it is an output."""
    activation_of(op, UnidirectionalSequenceRnnInput.ACTIVATION)
    axes = axes_of(time_major(op))
    sizes = Sizes(op)
    sizes.learn(UnidirectionalSequenceRnnInput.INPUT, *axes, "input size")
    match_cell(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL, sizes)
    return (sizes.of(*axes, "output size"), sizes.of("batch", "output size"))[: len(op.outputs)]


def time_major(op: OperationContext) -> bool:
    """Return whether time is the first axis. Only this operation takes an integer for it."""
    value = op.integer(UnidirectionalSequenceRnnInput.TIME_MAJOR)
    if value not in (0, 1):
        op.refuse(f"time_major is {value}, expected 0 or 1")
    return value == 1


UNIDIRECTIONAL_SEQUENCE_RNN = OperationDefinition(
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN,
    3,
    validate_unidirectional_sequence_rnn,
    prepare_unidirectional_sequence_rnn,
    work=of_gates,
)


STATES = 2
"""The number of states: forward and backward."""


class BidirectionalSequenceRnnInput(IntEnum):
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
    """True if both outputs are one, joined along the last axis."""


FORWARD = RnnInputs(BidirectionalSequenceRnnInput.FORWARD_WEIGHTS, BidirectionalSequenceRnnInput.FORWARD_AUX_WEIGHTS)
BACKWARD = RnnInputs(BidirectionalSequenceRnnInput.BACKWARD_WEIGHTS, BidirectionalSequenceRnnInput.BACKWARD_AUX_WEIGHTS)


def validate_bidirectional_sequence_rnn(op: Signature) -> None:
    """Require float tensors. The two states as further outputs, and parallel linking, need feature level 4."""
    op.count(15, (1, 2, 1 + STATES, 2 + STATES), names=BidirectionalSequenceRnnInput)
    main = op.tensor(BidirectionalSequenceRnnInput.INPUT, {F32: 3, F16: 3}, rank=3)
    validate_cell(op, FORWARD, main)
    validate_cell(op, BACKWARD, main)
    op.tensor(BidirectionalSequenceRnnInput.AUX_INPUT, {main: 3}, optional=True)
    note_parallel_linking(
        op, BidirectionalSequenceRnnInput.AUX_INPUT, BidirectionalSequenceRnnInput.FORWARD_AUX_WEIGHTS
    )
    op.scalar(BidirectionalSequenceRnnInput.ACTIVATION, INT32)
    op.scalar(BidirectionalSequenceRnnInput.TIME_MAJOR, BOOL)
    op.scalar(BidirectionalSequenceRnnInput.MERGE_OUTPUTS, BOOL)
    states = STATES if len(op.outputs) > STATES else 0
    validate_outputs(op, main, len(op.outputs) - states, states)


def prepare_bidirectional_sequence_rnn(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return forward and backward outputs, or both merged along the last axis, and the states if they are outputs."""
    activation_of(op, BidirectionalSequenceRnnInput.ACTIVATION)
    axes = axes_of(op.boolean(BidirectionalSequenceRnnInput.TIME_MAJOR))
    forward, backward = link_sizes(
        op, axes, BidirectionalSequenceRnnInput.INPUT, BidirectionalSequenceRnnInput.AUX_INPUT, linking(op)
    )
    match_cell(op, FORWARD, forward)
    match_cell(op, BACKWARD, backward)
    sequences = merged_outputs(
        op, axes, forward, backward, op.boolean(BidirectionalSequenceRnnInput.MERGE_OUTPUTS), STATES
    )
    states = (sizes.of("batch", "output size") for sizes in (forward, backward))
    return (*sequences, *states)[: len(op.outputs)]


def linking(op: OperationContext) -> Linking:
    return linking_of(
        op,
        BidirectionalSequenceRnnInput.AUX_INPUT,
        BidirectionalSequenceRnnInput.FORWARD_AUX_WEIGHTS,
        BidirectionalSequenceRnnInput.BACKWARD_AUX_WEIGHTS,
    )


BIDIRECTIONAL_SEQUENCE_RNN = OperationDefinition(
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN,
    3,
    validate_bidirectional_sequence_rnn,
    prepare_bidirectional_sequence_rnn,
    work=of_gates,
)


class SvdfInput(Inputs):
    INPUT = tensor({F32: 1, F16: 3}, rank=2), "[batch, input size]."
    FEATURE_WEIGHTS = same(rank=2), "[filters, input size]."
    TIME_WEIGHTS = same(rank=2), "[filters, memory size]."
    BIAS = same(optional=True), "[units]."
    STATE = same(rank=2), "[batch, memory size * filters]."
    RANK = scalar(INT32), "Filters for each unit."
    ACTIVATION = scalar(INT32)


def prepare_svdf(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return state [batch, memory size * filters] and output [batch, units]. A unit is the sum of ``rank`` filters."""
    activation_of(op, SvdfInput.ACTIVATION)
    rank = op.integer(SvdfInput.RANK)
    if rank < 1:
        op.refuse(f"rank {rank}, expected 1 or more")
    sizes = Sizes(op)
    sizes.learn(SvdfInput.INPUT, "batch", "input size")
    sizes.learn(SvdfInput.FEATURE_WEIGHTS, "filters", "input size")
    sizes.learn(SvdfInput.TIME_WEIGHTS, "filters", "memory size")
    sizes.learn(SvdfInput.STATE, "batch", "state size")
    filters, memory = sizes.of("filters", "memory size")
    if filters % rank:
        op.refuse(f"got {filters} filters, expected a multiple of {rank}, the rank")
    sizes.require("state size", filters * memory, "the product of filters and memory size")
    sizes.require("units", filters // rank, "the quotient of filters and rank")
    if op.given(SvdfInput.BIAS):
        sizes.learn(SvdfInput.BIAS, "units")
    return sizes.of("batch", "state size"), sizes.of("batch", "units")


SVDF = OperationDefinition(
    OperationType.SVDF, 1, signature(SvdfInput, same(rank=2), same(rank=2)), prepare_svdf, work=of_filtered_features
)
