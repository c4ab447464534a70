"""Recurrent cells without gates: RNN, its sequences, and SVDF."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnhal.kernels.array_types import Array, Floats
from nnhal.kernels.quantization import activate, from_real, to_real
from nnhal.kernels.sequences import merge, read_sequence, unroll, unroll_both, write_sequences
from nnhal.operations import OperationContext
from nnhal.operations.rnn import (
    BACKWARD,
    CELL,
    FORWARD,
    UNIDIRECTIONAL_SEQUENCE_RNN_CELL,
    BidirectionalSequenceRnnInput,
    RnnInput,
    RnnInputs,
    SvdfInput,
    UnidirectionalSequenceRnnInput,
    linking,
    time_major,
)
from nnhal.operations.windows import activation_of
from nnhal.types import FusedActivation


@dataclass(frozen=True, slots=True)
class RnnCell:
    """A SequenceCell whose state is its last output, [batch, units]."""

    weights: Floats
    """[units, input size]."""

    recurrent: Floats
    """[units, units]."""

    bias: Floats
    """[units]."""

    aux: Floats | None
    """[units, auxiliary input size]."""

    activation: FusedActivation

    @property
    def output_size(self) -> int:
        return len(self.bias)

    def step(self, values: Floats, state: Floats, aux: Floats | None = None) -> tuple[Floats, Floats]:
        total = values @ self.weights.T + state @ self.recurrent.T + self.bias
        if self.aux is not None and aux is not None:
            total = total + aux @ self.aux.T
        output = activate(total, self.activation)
        return output, output


def read_cell(op: OperationContext, cell: RnnInputs, activation: int) -> RnnCell:
    """Read a cell from an operation's inputs. ``activation`` is the index of the activation."""
    aux = cell.aux_weights
    return RnnCell(
        to_real(op, cell.weights),
        to_real(op, cell.recurrent_weights),
        to_real(op, cell.bias),
        to_real(op, aux) if aux is not None and op.has(aux) else None,
        activation_of(op, activation),
    )


def rnn(op: OperationContext) -> tuple[Array, ...]:
    """activation(weights x input + recurrent weights x state + bias), which is the next state too."""
    output, state = read_cell(op, CELL, RnnInput.ACTIVATION).step(to_real(op, RnnInput.INPUT), to_real(op, CELL.state))
    return from_real(op, state, 0), from_real(op, output, 1)


def unidirectional_sequence_rnn(op: OperationContext) -> tuple[Array, ...]:
    """A cell through time; its last state too if it is an output."""
    inputs = read_sequence(op, UnidirectionalSequenceRnnInput.INPUT, time_major(op))
    outputs, state = unroll(
        read_cell(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL, UnidirectionalSequenceRnnInput.ACTIVATION),
        inputs,
        to_real(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL.state),
    )
    return (*write_sequences(op, [outputs], time_major(op)), from_real(op, state))[: len(op.outputs)]


def bidirectional_sequence_rnn(op: OperationContext) -> tuple[Array, ...]:
    """Two cells through time, one of them backward; their last states too if they are outputs."""
    time_major = op.boolean(BidirectionalSequenceRnnInput.TIME_MAJOR)
    sequences, states = unroll_both(
        (
            read_cell(op, FORWARD, BidirectionalSequenceRnnInput.ACTIVATION),
            read_cell(op, BACKWARD, BidirectionalSequenceRnnInput.ACTIVATION),
        ),
        read_sequence(op, BidirectionalSequenceRnnInput.INPUT, time_major),
        (to_real(op, FORWARD.state), to_real(op, BACKWARD.state)),
        read_sequence(op, BidirectionalSequenceRnnInput.AUX_INPUT, time_major)
        if op.has(BidirectionalSequenceRnnInput.AUX_INPUT)
        else None,
        linking(op),
    )
    outputs = write_sequences(op, merge(sequences, op.boolean(BidirectionalSequenceRnnInput.MERGE_OUTPUTS)), time_major)
    return (*outputs, *(from_real(op, state) for state in states))[: len(op.outputs)]


def svdf(op: OperationContext) -> tuple[Array, ...]:
    """Each filter remembers its last features; its output is their sum weighted by time, a unit's that of its filters.

    A state's newest place is free between steps: it takes the new features, and is free (zero) again after the shift.
    """
    features = to_real(op, SvdfInput.INPUT) @ to_real(op, SvdfInput.FEATURE_WEIGHTS).T
    weights = to_real(op, SvdfInput.TIME_WEIGHTS)
    batch, filters = features.shape
    older = to_real(op, SvdfInput.STATE).reshape(batch, *weights.shape)[..., :-1]
    memory = np.concatenate([older, features[..., np.newaxis]], axis=-1)
    rank = op.integer(SvdfInput.RANK)
    output = (memory * weights).sum(axis=-1).reshape(batch, filters // rank, rank).sum(axis=-1)
    if op.has(SvdfInput.BIAS):
        output = output + to_real(op, SvdfInput.BIAS)
    shifted = np.concatenate([memory[..., 1:], np.zeros_like(memory[..., :1])], axis=-1)
    output = activate(output, activation_of(op, SvdfInput.ACTIVATION))
    return from_real(op, shifted.reshape(batch, -1), 0), from_real(op, output, 1)
