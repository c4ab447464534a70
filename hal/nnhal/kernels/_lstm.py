"""A long short-term memory cell in floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.kernels._quantization import to_real
from nnhal.kernels._types import Floats
from nnhal.operations import OperationContext
from nnhal.operations.lstm import LstmActivation, LstmInputs, lstm_activation_of

_EPSILON = np.float32(1e-8)


class LstmState(NamedTuple):
    """The state between steps: the output [batch, output size] and the cell state [batch, units]."""

    output: Floats
    cell: Floats


@dataclass(frozen=True, slots=True)
class LstmGate:
    """The weights of a gate, or of the update, which is computed the same way."""

    weights: Floats
    """[units, input size]."""

    recurrent: Floats
    """[units, output size]."""

    bias: Floats
    """[units]."""

    peephole: Floats | None
    """[units]."""

    layer_norm: Floats | None
    """[units]."""

    aux: Floats | None
    """[units, auxiliary input size]."""

    def __call__(self, values: Floats, state: LstmState, aux: Floats | None) -> Floats:
        """The gate before its activation. A peephole reads the cell state."""
        total = values @ self.weights.T + state.output @ self.recurrent.T
        if self.aux is not None and aux is not None:
            total = total + aux @ self.aux.T
        if self.peephole is not None:
            total = total + self.peephole * state.cell
        if self.layer_norm is not None:
            total = _normalize(total) * self.layer_norm
        return total + self.bias


@dataclass(frozen=True, slots=True)
class LstmCell:
    """A long short-term memory cell: a SequenceCell."""

    input: LstmGate | None
    """None if the input gate is coupled to the forget gate."""

    forget: LstmGate
    """The forget gate."""

    update: LstmGate
    """The update of the cell state."""

    output: LstmGate
    """The output gate."""

    projection: Floats | None
    """[output size, units]."""

    projection_bias: Floats | None
    """[output size]."""

    activation: LstmActivation
    """That of the update and of the cell state."""

    cell_clip: np.float32
    """The bound of the cell state; 0 for none."""

    projection_clip: np.float32
    """The bound of the projected output; 0 for none."""

    @property
    def output_size(self) -> int:
        return len(self.output.bias if self.projection is None else self.projection)

    def step(self, values: Floats, state: LstmState, aux: Floats | None = None) -> tuple[Floats, LstmState]:
        forget = _sigmoid(self.forget(values, state, aux))
        admit = 1 - forget if self.input is None else _sigmoid(self.input(values, state, aux))
        memory = forget * state.cell + admit * _activate(self.update(values, state, aux), self.activation)
        memory = _clip(memory, self.cell_clip)
        # The output gate's peephole reads the new cell state.
        gate = _sigmoid(self.output(values, LstmState(state.output, memory), aux))
        output = self._project(gate * _activate(memory, self.activation))
        return output, LstmState(output, memory)

    def _project(self, output: Floats) -> Floats:
        if self.projection is None:
            return output
        projected = output @ self.projection.T
        if self.projection_bias is not None:
            projected = projected + self.projection_bias
        return _clip(projected, self.projection_clip)


def read_cell(op: OperationContext, cell: LstmInputs, activation: int) -> LstmCell:
    """Read a cell from an operation's inputs. ``activation`` is the index of the activation; the clips follow it."""

    def given(index: int) -> Floats | None:
        return to_real(op, index) if op.has(index) else None

    def gate(number: int, peephole: int | None) -> LstmGate:
        return LstmGate(
            to_real(op, cell.input_weights[number]),
            to_real(op, cell.recurrent_weights[number]),
            to_real(op, cell.biases[number]),
            None if peephole is None else given(peephole),
            given(cell.layer_norms[number]),
            given(cell.all_aux_weights[number]) if cell.all_aux_weights else None,
        )

    return LstmCell(
        gate(0, cell.peepholes[0]) if op.has(cell.input_weights[0]) else None,
        gate(1, cell.peepholes[1]),
        gate(2, None),
        gate(3, cell.peepholes[2]),
        given(cell.projection),
        given(cell.projection_bias),
        lstm_activation_of(op, activation),
        np.float32(op.real(activation + 1)),
        np.float32(op.real(activation + 2)),
    )


def read_state(op: OperationContext, cell: LstmInputs) -> LstmState:
    """Read the state that an operation starts from."""
    return LstmState(to_real(op, cell.output_state), to_real(op, cell.cell_state))


def _normalize(values: Floats) -> Floats:
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    # A constant row is all zero once centred; the epsilon keeps it from becoming 0 / 0.
    normalized: Floats = centred / np.sqrt(np.where(variance == 0, _EPSILON, variance))
    return normalized


def _sigmoid(values: Floats) -> Floats:
    return np.reciprocal(np.exp(-values) + np.float32(1))


def _activate(values: Floats, activation: LstmActivation) -> Floats:
    if activation == LstmActivation.RELU:
        return np.maximum(values, np.float32(0))
    if activation == LstmActivation.RELU6:
        return np.clip(values, np.float32(0), np.float32(6))
    if activation == LstmActivation.TANH:
        return np.tanh(values)
    if activation == LstmActivation.SIGMOID:
        return _sigmoid(values)
    return values


def _clip(values: Floats, limit: np.float32) -> Floats:
    return np.clip(values, -limit, limit) if limit else values
