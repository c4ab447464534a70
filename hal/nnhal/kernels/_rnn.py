"""A basic recurrent cell in floats."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.kernels._quantization import activate, to_real
from nnhal.kernels._types import Floats
from nnhal.operations import OperationContext
from nnhal.operations._window import activation_of
from nnhal.operations.rnn import RnnInputs
from nnhal.types import FusedActivation


@dataclass(frozen=True, slots=True)
class RnnCell:
    """A SequenceCell whose state is its last output, [batch, units]."""

    weights: Floats
    """[units, input size]."""

    recurrent: Floats
    """[units, units]."""

    bias: Floats
    """[units]."""

    aux: Floats | None
    """[units, auxiliary input size]."""

    activation: FusedActivation

    @property
    def output_size(self) -> int:
        return len(self.bias)

    def step(self, values: Floats, state: Floats, aux: Floats | None = None) -> tuple[Floats, Floats]:
        total = values @ self.weights.T + state @ self.recurrent.T + self.bias
        if self.aux is not None and aux is not None:
            total = total + aux @ self.aux.T
        output = activate(total, self.activation)
        return output, output


def read_cell(op: OperationContext, cell: RnnInputs, activation: int) -> RnnCell:
    """Read a cell from an operation's inputs. ``activation`` is the index of the activation."""
    aux = cell.aux_weights
    return RnnCell(
        to_real(op, cell.weights),
        to_real(op, cell.recurrent_weights),
        to_real(op, cell.bias),
        to_real(op, aux) if aux is not None and op.has(aux) else None,
        activation_of(op, activation),
    )
