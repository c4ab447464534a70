"""LSTM."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._lstm import read_cell, read_state
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lstm import CELL, LstmInput


def lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step. The scratch output exists for implementations that need the memory; here it is zero."""
    cell = read_cell(op, CELL, LstmInput.ACTIVATION)
    output, state = cell.step(to_real(op, LstmInput.INPUT), read_state(op, CELL))
    gates = 3 if cell.input is None else 4
    scratch = np.zeros((len(output), gates * state.cell.shape[1]), np.float32)
    results = (scratch, state.output, state.cell, output)
    return tuple(from_real(op, values, index) for index, values in enumerate(results))
