"""Windows that slide over images: the parameters that convolutions and poolings share.

The implicit form of an operation names a padding scheme (SAME or VALID), the explicit form gives four paddings.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.operations._context import OperationContext
from nnhal.types import FusedActivation

SAME = 1
VALID = 2


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a window: sizes in elements."""

    size: int
    stride: int
    before: int
    after: int
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Elements from the window's first tap to its last."""
        return (self.size - 1) * self.dilation + 1

    def output(self, length: int) -> int:
        """How many windows fit an axis of ``length`` elements."""
        return (length + self.before + self.after - self.reach) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window over the two spatial axes of an image, in the order height, width."""

    height: Axis
    width: Axis
    activation: FusedActivation
    channels_first: bool


def activation_of(op: OperationContext, index: int) -> FusedActivation:
    """The value of an activation input."""
    code = op.integer(index)
    if not 0 <= code <= 3:
        op.refuse(f"activation {code}, expected 0 to 3")
    return FusedActivation(code)


def implicit_padding(op: OperationContext, scheme: int, length: int, size: int, stride: int, dilation: int) -> Axis:
    """An axis padded by scheme: SAME keeps ceil(length / stride) windows, the odd element goes after."""
    if scheme not in (SAME, VALID):
        op.refuse(f"padding scheme {scheme}, expected 1 (SAME) or 2 (VALID)")
    if min(stride, size, dilation) < 1:
        op.refuse(f"stride {stride}, size {size} and dilation {dilation} of a window, expected at least 1 each")
    if scheme == VALID:
        return Axis(size, stride, 0, 0, dilation)
    count = -(-length // stride)
    total = max(0, (count - 1) * stride + (size - 1) * dilation + 1 - length)
    return Axis(size, stride, total // 2, total - total // 2, dilation)


def explicit_padding(
    op: OperationContext, before: int, after: int, length: int, size: int, stride: int, dilation: int
) -> Axis:
    """An axis with given paddings."""
    if min(before, after) < 0:
        op.refuse(f"paddings {before} and {after}, expected 0 or more")
    if min(stride, size, dilation) < 1:
        op.refuse(f"stride {stride}, size {size} and dilation {dilation} of a window, expected at least 1 each")
    axis = Axis(size, stride, before, after, dilation)
    if length and axis.output(length) < 1:
        op.refuse(f"a window of {axis.reach} does not fit {length} elements padded by {before} and {after}")
    return axis
