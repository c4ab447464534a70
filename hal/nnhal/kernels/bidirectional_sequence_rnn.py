"""BIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._rnn import read_cell
from nnhal.kernels._sequence import merge, read_sequence, unroll_both, write_sequences
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.rnn import BACKWARD, FORWARD, BidirectionalSequenceRnnInput, linking


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
