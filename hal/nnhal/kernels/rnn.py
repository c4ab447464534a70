"""RNN."""

from __future__ import annotations

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._rnn import read_cell
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.rnn import CELL, RnnInput


def rnn(op: OperationContext) -> tuple[Array, ...]:
    """activation(weights x input + recurrent weights x state + bias), which is the next state too."""
    output, state = read_cell(op, CELL, RnnInput.ACTIVATION).step(to_real(op, RnnInput.INPUT), to_real(op, CELL.state))
    return from_real(op, state, 0), from_real(op, output, 1)
