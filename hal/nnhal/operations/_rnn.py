"""Rules that the RNN operations share: which inputs are a cell's operands, and how they are checked."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._sizes import Sizes
from nnhal.types import OperandType


@dataclass(frozen=True, slots=True)
class RnnInputs:
    """The positions of one RNN cell's operands: from ``first`` on, weights, recurrent weights, bias and state."""

    first: int
    aux_weights: int | None = None

    @property
    def weights(self) -> int:
        """[units, input size]."""
        return self.first

    @property
    def recurrent_weights(self) -> int:
        """[units, units]."""
        return self.first + 1

    @property
    def bias(self) -> int:
        """[units]."""
        return self.first + 2

    @property
    def state(self) -> int:
        """[batch, units]."""
        return self.first + 3


def validate_cell(op: Signature, cell: RnnInputs, main: OperandType) -> None:
    """Check the types of a cell's operands, and the ranks of the operands that are not optional."""
    for index, rank in ((cell.weights, 2), (cell.recurrent_weights, 2), (cell.bias, 1), (cell.state, 2)):
        op.tensor(index, {main: 1}, rank=rank)
    if cell.aux_weights is not None:
        op.tensor(cell.aux_weights, {main: 1}, optional=True)


def match_cell(op: OperationContext, cell: RnnInputs, sizes: Sizes) -> None:
    """Check that the dimensions of a cell's operands agree.

    ``sizes`` knows the batch and the input size (and the auxiliary size), and learns the output size: the units.
    """
    sizes.learn(cell.weights, "output size", "input size")
    sizes.learn(cell.recurrent_weights, "output size", "output size")
    sizes.learn(cell.bias, "output size")
    sizes.learn(cell.state, "batch", "output size")
    if cell.aux_weights is not None and op.given(cell.aux_weights):
        sizes.learn(cell.aux_weights, "output size", "auxiliary size")
