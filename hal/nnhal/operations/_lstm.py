"""What the LSTM operations share: where a cell's operands lie among the inputs, and what they must be.

A cell has an input, a forget and an output gate, and an update of its state that is computed like a gate. Groups of
four operands are in the order input, forget, update, output. Without operands of its own the input gate is coupled to
the forget gate (CIFG): it is 1 - forget.
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
    """The activation of a cell: another enumeration than that of fused activations."""

    NONE = 0
    RELU = 1
    RELU6 = 3
    TANH = 4
    SIGMOID = 6


class CellTypes(NamedTuple):
    """The operand types of a cell."""

    weights: OperandType
    peephole: OperandType
    bias: OperandType
    layer_norm: OperandType
    output_state: OperandType
    cell_state: OperandType


@dataclass(frozen=True, slots=True)
class CellInputs:
    """Where one cell's operands lie among an operation's inputs.

    From ``first`` on: four input weights, four recurrent weights, three peepholes (of the gates), four biases, the
    projection and its bias. ``layer_norm`` and ``aux_weights`` are the first of four.
    """

    first: int
    output_state: int
    cell_state: int
    layer_norm: int
    aux_weights: int | None = None

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
        """[units, auxiliary size] each; empty where the operation has no auxiliary input."""
        return range(0) if self.aux_weights is None else range(self.aux_weights, self.aux_weights + 4)


def float_types(main: OperandType) -> CellTypes:
    """A cell all of whose operands are of one float type."""
    return CellTypes(main, main, main, main, main, main)


def validate_cell(op: Signature, cell: CellInputs, types: CellTypes) -> None:
    """Check the types of a cell's operands, and the ranks of those that are not optional."""
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


def match_cell(op: OperationContext, cell: CellInputs, sizes: Sizes) -> bool:
    """Check which of a cell's operands are given and that their dimensions agree; return whether the gates are coupled.

    ``sizes`` knows the batch and the input size (and the auxiliary size), and learns the units and the output size.
    """
    members = [op.given(group[0]) for group in (cell.input_weights, cell.recurrent_weights, cell.biases)]
    if any(members) and not all(members):
        op.refuse(
            "input weights, recurrent weights and bias of the input gate: some are left out, expected all or none"
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
    """The dimensions of a cell's output state and cell state."""
    return sizes.of("batch", "output size"), sizes.of("batch", "units")


def lstm_activation_of(op: OperationContext, index: int) -> LstmActivation:
    """The value of a cell's activation input."""
    code = op.integer(index)
    if code not in LstmActivation.__members__.values():
        op.refuse(f"activation {code}, expected {', '.join(f'{a.value} ({a.name})' for a in LstmActivation)}")
    return LstmActivation(code)


def require_clips(op: OperationContext, *indexes: int) -> None:
    """Refuse a clipping threshold below 0; 0 clips nothing."""
    for index in indexes:
        if not op.real(index) >= 0:
            op.refuse(f"input {index} clips at {op.real(index)}, expected 0 or more")


def _optional(op: Signature, type: OperandType, *indexes: int) -> None:  # noqa: A002
    for index in indexes:
        if index < len(op.inputs):
            op.tensor(index, {type: 1}, optional=True)


def _given_group(op: OperationContext, name: str, group: range, first: int) -> range:
    """The members of an optional group that a cell needs, or none. ``first`` is 1 where it has no input gate."""
    needed = group[first:]
    given = [op.given(index) for index in needed]
    if any(given) and not all(given):
        op.refuse(f"{name}: some are left out, expected all or none")
    if first and group and op.given(group[0]):
        op.refuse(f"{name}: the input gate has some, but is coupled to the forget gate")
    return needed if any(given) else range(0)


def _match_projection(op: OperationContext, cell: CellInputs, sizes: Sizes) -> None:
    if op.given(cell.projection):
        sizes.learn(cell.projection, "output size", "units")
        if op.given(cell.projection_bias):
            sizes.learn(cell.projection_bias, "output size")
        return
    if op.given(cell.projection_bias):
        op.refuse("it has a projection bias and no projection weights")
    sizes.require("output size", sizes["units"], "a cell without projection")
