"""UNIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._rnn import read_cell
from nnhal.kernels._sequence import read_sequence, unroll, write_sequences
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.rnn import UNIDIRECTIONAL_SEQUENCE_RNN_CELL, UnidirectionalSequenceRnnInput, time_major


def unidirectional_sequence_rnn(op: OperationContext) -> tuple[Array, ...]:
    """A cell through time; its last state too if it is an output."""
    inputs = read_sequence(op, UnidirectionalSequenceRnnInput.INPUT, time_major(op))
    outputs, state = unroll(
        read_cell(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL, UnidirectionalSequenceRnnInput.ACTIVATION),
        inputs,
        to_real(op, UNIDIRECTIONAL_SEQUENCE_RNN_CELL.state),
    )
    return (*write_sequences(op, [outputs], time_major(op)), from_real(op, state))[: len(op.outputs)]
