"""UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from nnhal.kernels._lstm import read_cell, read_state
from nnhal.kernels._quantization import from_real
from nnhal.kernels._sequence import read_sequence, unroll, write_sequences
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lstm import UNIDIRECTIONAL_SEQUENCE_LSTM_CELL, UnidirectionalSequenceLstmInput


def unidirectional_sequence_lstm(op: OperationContext) -> tuple[Array, ...]:
    """A cell through time; its last state too if it is an output."""
    time_major = op.boolean(UnidirectionalSequenceLstmInput.TIME_MAJOR)
    inputs = read_sequence(op, UnidirectionalSequenceLstmInput.INPUT, time_major)
    outputs, state = unroll(
        read_cell(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL, UnidirectionalSequenceLstmInput.ACTIVATION),
        inputs,
        read_state(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL),
    )
    states = [from_real(op, values, 1) for values in state] if len(op.outputs) > 1 else []
    return (*write_sequences(op, [outputs], time_major), *states)
