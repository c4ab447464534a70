"""Interface of an operation to the machine: any box of its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nnhal.arrays import Array
from nnhal.operations import OperationContext
from nnhal.types.layout import Dimensions
from nnhal_cascade.geometry.box import Box, Shape


class NoStripesError(ValueError):
    """An operation has no form for stripes with the arguments that it has."""


class StripeKernel(Protocol):
    """An operation with its constants, prepared once. It computes any box of its output, bit for bit as cpu_ref does.

    All arrays are of [rows, columns, channels].
    """

    inputs: tuple[Shape, ...]
    """The whole shape of each activation that it reads."""

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return the box of each activation that a box of the output depends on; it may be empty."""
        ...

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Compute a box of the output from exactly the boxes that ``reads`` names."""
        ...


@dataclass(frozen=True, slots=True)
class OperationCall:
    """An operation of the model, with what is known of it before execution."""

    op: OperationContext
    """Its constants have values, and all dimensions are known."""
    output: Shape
    """The dimensions of the output that is computed."""
    position: int = 0
    """Which of the operation's outputs is computed."""

    @property
    def activations(self) -> tuple[int, ...]:
        """The positions of the inputs that are no constants."""
        return tuple(
            index for index in range(len(self.op.inputs)) if self.op.has(index) and not self.op.is_known(index)
        )

    def shape(self, index: int) -> Shape:
        """Return the shape of an input."""
        return shape_of(self.op.dimensions(index))


def shape_of(dimensions: Dimensions) -> Shape:
    """Return dimensions as [rows, columns, channels]; missing axes are 1, in front. Raises ValueError."""
    batch, *rest = (1,) * (4 - len(dimensions)) + tuple(dimensions)
    if len(rest) != 3 or batch != 1:
        raise ValueError(f"a tensor of dimensions {list(dimensions)}, expected up to 4 axes and a batch of 1")
    return Shape(*rest)


def executing(op: OperationContext, values: Mapping[int, Array]) -> OperationContext:
    """Return an operation as cpu_ref's kernels take it, with the values of some inputs besides its constants."""

    def value_of(index: int) -> Array | None:
        return values[index] if index in values else op.value(index)

    def dimensions_of(index: int) -> Dimensions:
        return values[index].shape if index in values else op.dimensions(index)

    return OperationContext(op.type, op.place, op.inputs, op.outputs, value_of, dimensions_of, op.relaxed)
