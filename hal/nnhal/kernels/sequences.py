"""Recurrent cells over sequences, in one direction or both. Sequences are time first here: [time, batch, size]."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

from nnhal.kernels.array_types import Array, Floats
from nnhal.kernels.quantization import from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.sequences import Linking

State = TypeVar("State")


class SequenceCell(Protocol[State]):
    """One step of a recurrent network."""

    @property
    def output_size(self) -> int: ...

    def step(self, values: Floats, state: State, aux: Floats | None = None) -> tuple[Floats, State]:
        """Return the output [batch, output size] and the next state, for an input and an optional auxiliary input."""
        ...


def read_sequence(op: OperationContext, index: int, time_major: bool) -> Floats:
    """Read an input as a sequence, time first."""
    values = to_real(op, index)
    return values if time_major else values.swapaxes(0, 1)


def write_sequences(op: OperationContext, sequences: list[Floats], time_major: bool) -> list[Array]:
    """Convert sequences, time first, to the first outputs of an operation."""
    ordered = (sequence if time_major else sequence.swapaxes(0, 1) for sequence in sequences)
    return [from_real(op, sequence, index) for index, sequence in enumerate(ordered)]


def unroll(cell: SequenceCell[State], inputs: Floats, state: State, aux: Floats | None = None) -> tuple[Floats, State]:
    """Run a cell from the start of a sequence to its end. Returns all outputs and the last state."""
    outputs = np.empty((*inputs.shape[:2], cell.output_size), np.float32)
    for time, values in enumerate(inputs):
        outputs[time], state = cell.step(values, state, None if aux is None else aux[time])
    return outputs, state


def unroll_both(
    cells: tuple[SequenceCell[State], SequenceCell[State]],
    inputs: Floats,
    states: tuple[State, State],
    aux: Floats | None,
    linking: Linking,
) -> tuple[list[Floats], list[State]]:
    """Run a cell forward and another backward. Returns both outputs in the input's order, and the last states."""
    backward_inputs, crossed = inputs, aux
    if linking != Linking.CROSS:
        crossed = None
    if linking == Linking.PARALLEL and aux is not None:
        backward_inputs = aux
    forward, forward_state = unroll(cells[0], inputs, states[0], crossed)
    backward, backward_state = unroll(
        cells[1], backward_inputs[::-1], states[1], None if crossed is None else crossed[::-1]
    )
    return [forward, backward[::-1]], [forward_state, backward_state]


def merge(sequences: list[Floats], merged: bool) -> list[Floats]:
    """The outputs of both directions, joined along the last axis if they are to be merged."""
    return [np.concatenate(sequences, axis=-1)] if merged else sequences
