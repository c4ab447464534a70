"""Result of a matcher: the part that an operation becomes, before tensors are numbered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nnhal.operations import OperationContext
from nnhal.types import FusedActivation
from nnhal.types.layout import Dimensions, describe
from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartConstants, PartKind

MAX_RANK = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """An activation that an operation reads, and the dependency along each axis of that input."""

    position: int
    """Among the operation's inputs."""
    rows: AxisAccess
    columns: AxisAccess
    channels: AxisAccess

    @property
    def accesses(self) -> tuple[AxisAccess, ...]:
        """Return those of rows, columns and channels."""
        return self.rows, self.columns, self.channels


@dataclass(frozen=True, slots=True)
class Match:
    """The part for one output of an operation."""

    kind: PartKind
    readings: tuple[Reading, ...]
    """In the order of the operation's inputs."""
    kernel: Kernel = field(default_factory=Kernel)
    constants: PartConstants | None = None
    activation: Activation = Activation.NONE
    passes: int = 1


Matcher = Callable[[OperationContext, Sequence[Shape]], Sequence[Match]]
"""From an operation and the shapes of its outputs to a match for each output. Raises ValueError and UnknownYet."""


def as_shape(dimensions: Dimensions, what: str) -> Shape:
    """Return dimensions as rows, columns and channels; missing axes are 1, in front.

    Raises ValueError, with ``what`` for the message, if they are unknown, more than four, or have a batch other than 1.
    """
    if not dimensions or 0 in dimensions:
        raise ValueError(f"{what}: got dimensions of {describe(dimensions)}, expected all of them to be known")
    if len(dimensions) > MAX_RANK:
        raise ValueError(f"{what}: got rank {len(dimensions)}, expected 1 to {MAX_RANK}")
    batch, *image = (1,) * (MAX_RANK - len(dimensions)) + dimensions
    if batch != 1:
        raise ValueError(f"{what}: got dimensions of {describe(dimensions)}, expected batch 1")
    return Shape(*image)


def shape_of(op: OperationContext, position: int) -> Shape:
    """Return the shape of an input. Raises ValueError."""
    return as_shape(op.dimensions(position), op.input_name(position))


def constant_operands(op: OperationContext, positions: Iterable[int], output: Shape) -> PartConstants | None:
    """Return the constants among element-wise operands, None if there are none.

    A constant of one value is part of a command. The bytes of others are spread over the channels of the output.
    """
    sizes = (shape_of(op, position).elements for position in positions if op.is_known(position))
    constant_bytes = sum(size for size in sizes if size > 1)
    return PartConstants(-(-constant_bytes // output.channels), 0) if constant_bytes else None


def require_channels_last(op: OperationContext, channels_first: bool) -> None:
    """Raise ValueError for images of [batch, channels, height, width]."""
    if channels_first:
        raise ValueError(f"{op.place}: got images with their channels first, expected channels last")


def fused(activation: FusedActivation) -> Activation:
    """Return what a fused activation costs."""
    return Activation.NONE if activation == FusedActivation.NONE else Activation.CLAMP
