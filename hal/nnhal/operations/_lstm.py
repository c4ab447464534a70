"""Rules that the LSTM operations share: which inputs are a cell's operands, and how they are checked.

A cell has an input, a forget and an output gate, and an update of its state that is computed like a gate. Groups of
four operands are in the order input, forget, update, output. If the input gate has no operands of its own, it is
coupled to the forget gate (CIFG): it is 1 - forget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._sizes import Sizes
from nnhal.types import OperandType
from nnhal.types.layout import Dimensions


class LstmActivation(IntEnum):
    """The activation of a cell. The numbers differ from those of fused activations."""

    NONE = 0
    RELU = 1
    RELU6 = 3
    TANH = 4
    SIGMOID = 6


class CellTypes(NamedTuple):
    """The operand types of a cell."""

    weights: OperandType
    """Of input, recurrent, auxiliary and projection weights."""
    peephole: OperandType
    """Of peephole weights."""
    bias: OperandType
    """Of the gates' biases and of the projection bias."""
    layer_norm: OperandType
    """Of layer normalisation weights."""
    output_state: OperandType
    """Of the output state."""
    cell_state: OperandType
    """Of the cell state."""


@dataclass(frozen=True, slots=True)
class LstmInputs:
    """The positions of one LSTM cell's operands among an operation's inputs."""

    first: int
    """From here on: 4 input weights, 4 recurrent weights, 3 peepholes, 4 biases, the projection and its bias."""
    output_state: int
    """The output state of the previous step."""
    cell_state: int
    """The cell state of the previous step."""
    layer_norm: int
    """The first of four layer normalisation weights."""
    aux_weights: int | None = None
    """The first of four weights for an auxiliary input; None if the operation has no such input."""

    @property
    def input_weights(self) -> range:
        """[units, input size] each."""
        return range(self.first, self.first + 4)

    @property
    def recurrent_weights(self) -> range:
        """[units, output size] each."""
        return range(self.first + 4, self.first + 8)

    @property
    def peepholes(self) -> range:
        """[units] each; of the input, forget and output gate."""
        return range(self.first + 8, self.first + 11)

    @property
    def biases(self) -> range:
        """[units] each."""
        return range(self.first + 11, self.first + 15)

    @property
    def projection(self) -> int:
        """[output size, units]."""
        return self.first + 15

    @property
    def projection_bias(self) -> int:
        """[output size]."""
        return self.first + 16

    @property
    def layer_norms(self) -> range:
        """[units] each."""
        return range(self.layer_norm, self.layer_norm + 4)

    @property
    def all_aux_weights(self) -> range:
        """[units, auxiliary size] each; empty if the operation has no auxiliary input."""
        return range(0) if self.aux_weights is None else range(self.aux_weights, self.aux_weights + 4)


def float_types(main: OperandType) -> CellTypes:
    """Return the types of a cell whose operands all have one float type."""
    return CellTypes(main, main, main, main, main, main)


def validate_cell(op: Signature, cell: LstmInputs, types: CellTypes) -> None:
    """Check the types of a cell's operands, and the ranks of the operands that are not optional."""
    for index in (*cell.input_weights[1:], *cell.recurrent_weights[1:]):
        op.tensor(index, {types.weights: 1}, rank=2)
    for index in cell.biases[1:]:
        op.tensor(index, {types.bias: 1}, rank=1)
    op.tensor(cell.output_state, {types.output_state: 1}, rank=2)
    op.tensor(cell.cell_state, {types.cell_state: 1}, rank=2)
    _optional(op, types.weights, cell.input_weights[0], cell.recurrent_weights[0], cell.projection)
    _optional(op, types.weights, *cell.all_aux_weights)
    _optional(op, types.peephole, *cell.peepholes)
    _optional(op, types.bias, cell.biases[0], cell.projection_bias)
    _optional(op, types.layer_norm, *cell.layer_norms)


def match_cell(op: OperationContext, cell: LstmInputs, sizes: Sizes) -> bool:
    """Check that a cell's operands are complete and their dimensions agree. Return whether the gates are coupled.

    ``sizes`` knows the batch and the input size (and the auxiliary size), and learns the units and the output size.
    """
    members = [op.given(group[0]) for group in (cell.input_weights, cell.recurrent_weights, cell.biases)]
    if any(members) and not all(members):
        op.refuse(
            "input weights, recurrent weights and bias of the input gate: some are left out, "
            "expected all or none of them"
        )
    first = 0 if all(members) else 1
    for index in cell.input_weights[first:]:
        sizes.learn(index, "units", "input size")
    for index in cell.recurrent_weights[first:]:
        sizes.learn(index, "units", "output size")
    for index in cell.biases[first:]:
        sizes.learn(index, "units")
    for name, group, axes in (
        ("peephole weights", cell.peepholes, ("units",)),
        ("layer normalisation weights", cell.layer_norms, ("units",)),
        ("auxiliary weights", cell.all_aux_weights, ("units", "auxiliary size")),
    ):
        for index in _given_group(op, name, group, first):
            sizes.learn(index, *axes)
    _match_projection(op, cell, sizes)
    sizes.learn(cell.output_state, "batch", "output size")
    sizes.learn(cell.cell_state, "batch", "units")
    return first == 1


def state_dimensions(sizes: Sizes) -> tuple[Dimensions, Dimensions]:
    """Return the dimensions of a cell's output state and cell state."""
    return sizes.of("batch", "output size"), sizes.of("batch", "units")


def lstm_activation_of(op: OperationContext, index: int) -> LstmActivation:
    """Return the value of a cell's activation input."""
    code = op.integer(index)
    if code not in LstmActivation.__members__.values():
        op.refuse(f"activation {code}, expected {', '.join(f'{a.value} ({a.name})' for a in LstmActivation)}")
    return LstmActivation(code)


def require_clips(op: OperationContext, *indexes: int) -> None:
    """Refuse a clipping threshold below 0. A threshold of 0 clips nothing."""
    for index in indexes:
        if not op.real(index) >= 0:
            op.refuse(f"input {index} is the clipping threshold {op.real(index)}, expected 0 or more")


def _optional(op: Signature, type: OperandType, *indexes: int) -> None:  # noqa: A002
    for index in indexes:
        if index < len(op.inputs):
            op.tensor(index, {type: 1}, optional=True)


def _given_group(op: OperationContext, name: str, group: range, first: int) -> range:
    """Return the operands of an optional group, which is given whole or not at all.

    ``first`` is 1 if the cell has no input gate of its own.
    """
    needed = group[first:]
    given = [op.given(index) for index in needed]
    if any(given) and not all(given):
        op.refuse(f"{name}: some are left out, expected all or none of them")
    if first and group and op.given(group[0]):
        op.refuse(f"{name}: got one for the input gate, expected none, since the gate is coupled to the forget gate")
    return needed if any(given) else range(0)


def _match_projection(op: OperationContext, cell: LstmInputs, sizes: Sizes) -> None:
    if op.given(cell.projection):
        sizes.learn(cell.projection, "output size", "units")
        if op.given(cell.projection_bias):
            sizes.learn(cell.projection_bias, "output size")
        return
    if op.given(cell.projection_bias):
        op.refuse("got a projection bias without projection weights, expected both or no bias")
    sizes.require("output size", sizes["units"], "a cell without projection")
