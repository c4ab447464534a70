"""BIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from nnhal.kernels._lstm import read_cell, read_state
from nnhal.kernels._quantization import from_real
from nnhal.kernels._sequence import merge, read_sequence, unroll_both, write_sequences
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.bidirectional_sequence_lstm import BACKWARD, FORWARD, Input, linking


def bidirectional_sequence_lstm(op: OperationContext) -> tuple[Array, ...]:
    """Two cells through time, one of them backward; their last states too if they are outputs."""
    time_major = op.boolean(Input.TIME_MAJOR)
    sequences, states = unroll_both(
        (read_cell(op, FORWARD, Input.ACTIVATION), read_cell(op, BACKWARD, Input.ACTIVATION)),
        read_sequence(op, Input.INPUT, time_major),
        (read_state(op, FORWARD), read_state(op, BACKWARD)),
        read_sequence(op, Input.AUX_INPUT, time_major) if op.has(Input.AUX_INPUT) else None,
        linking(op),
    )
    outputs = write_sequences(op, merge(sequences, op.boolean(Input.MERGE_OUTPUTS)), time_major)
    last = (from_real(op, values) for state in states for values in state)
    return (*outputs, *last)[: len(op.outputs)]
