"""BIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from nnhal.kernels._lstm import read_cell, read_state
from nnhal.kernels._quantization import from_real
from nnhal.kernels._sequence import merge, read_sequence, unroll_both, write_sequences
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lstm import BACKWARD, FORWARD, BidirectionalSequenceLstmInput, linking


def bidirectional_sequence_lstm(op: OperationContext) -> tuple[Array, ...]:
    """Two cells through time, one of them backward; their last states too if they are outputs."""
    time_major = op.boolean(BidirectionalSequenceLstmInput.TIME_MAJOR)
    sequences, states = unroll_both(
        (
            read_cell(op, FORWARD, BidirectionalSequenceLstmInput.ACTIVATION),
            read_cell(op, BACKWARD, BidirectionalSequenceLstmInput.ACTIVATION),
        ),
        read_sequence(op, BidirectionalSequenceLstmInput.INPUT, time_major),
        (read_state(op, FORWARD), read_state(op, BACKWARD)),
        read_sequence(op, BidirectionalSequenceLstmInput.AUX_INPUT, time_major)
        if op.has(BidirectionalSequenceLstmInput.AUX_INPUT)
        else None,
        linking(op),
    )
    outputs = write_sequences(
        op, merge(sequences, op.boolean(BidirectionalSequenceLstmInput.MERGE_OUTPUTS)), time_major
    )
    last = (from_real(op, values) for state in states for values in state)
    return (*outputs, *last)[: len(op.outputs)]
