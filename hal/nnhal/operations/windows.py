"""Windows that slide over images: the parameters that convolutions and poolings share.

The implicit form of an operation names a padding scheme (SAME or VALID), the explicit form gives four paddings. The two
forms are two enumerations of the operation's inputs that use the same names; ``Forms`` tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from nnhal.operations.context import OperationContext, Signature, UnknownYet
from nnhal.operations.operand_types import BOOL, INT32
from nnhal.types import FusedActivation, OperandType
from nnhal.types.layout import Dimensions

SAME = 1
VALID = 2

_TENSORS = frozenset({"INPUT", "FILTER", "BIAS", "OUTPUT_SHAPE"})
_SINCE_3 = frozenset({"LAYOUT", "DILATION_WIDTH", "DILATION_HEIGHT"})


class Axis(NamedTuple):
    """One spatial axis of a window. All sizes are in elements."""

    size: int
    """Elements that the window reads."""
    stride: int
    """From the start of one window to the start of the next."""
    before: int
    """Padding before the first element."""
    after: int
    """Padding after the last element."""
    dilation: int = 1
    """From one element that the window reads to the next."""

    @property
    def reach(self) -> int:
        """The number of elements from the window's first to its last."""
        return (self.size - 1) * self.dilation + 1

    def output(self, length: int) -> int:
        """Return how many windows fit on an axis of ``length`` elements."""
        return (length + self.before + self.after - self.reach) // self.stride + 1


class Window(NamedTuple):
    """A window over the two spatial axes of an image."""

    height: Axis
    """The vertical axis. With SAME its padding follows from the axis' length and is 0 as long as that is unknown."""
    width: Axis
    """The horizontal axis, padded like the vertical one."""
    scheme: int | None
    """SAME, VALID, or None for explicit paddings."""
    activation: FusedActivation
    """The fused activation."""
    channels_first: bool
    """True if images are NCHW."""
    multiplier: int = 1
    """The depth multiplier of a depthwise convolution."""
    groups: int = 1
    """The number of groups of a grouped convolution."""


class Images(NamedTuple):
    """The dimensions of a batch of images, independent of their layout. Before execution, 0 is unknown."""

    batch: int
    height: int
    width: int
    channels: int

    def dimensions(self, channels_first: bool) -> Dimensions:
        """Return them in the order of a tensor's axes."""
        if channels_first:
            return (self.batch, self.channels, self.height, self.width)
        return (self.batch, self.height, self.width, self.channels)


@dataclass(frozen=True, slots=True)
class Forms:
    """The inputs of an operation in its implicit and in its explicit form."""

    implicit: type[IntEnum]
    explicit: type[IntEnum]
    layout_required: bool = False

    def of(self, op: OperationContext) -> type[IntEnum]:
        """Return an operation's form: at the position of the implicit form's layout the explicit one has an integer."""
        layout, fewest = _positions(self.implicit)["LAYOUT"], self._counts(self.explicit)[0]
        explicit = len(op.inputs) >= fewest and op.inputs[layout].type == INT32
        return self.explicit if explicit else self.implicit

    def validate(self, op: Signature) -> type[IntEnum]:
        """Check the number of inputs and the types of all scalars, and return the form."""
        names = self.of(op.context)
        op.count(self._counts(names), names=names)
        for index, code, since in _scalars(names):
            op.scalar(index, code, since)
        return names

    def _counts(self, names: type[IntEnum]) -> tuple[int, ...]:
        return _counts(names, self.layout_required)


@cache
def _positions(names: type[IntEnum]) -> dict[str, int]:
    """The inputs of a form by their names. Enumerations are slow, and these are looked at for each operation."""
    return {member.name: int(member) for member in names}


@cache
def _scalars(names: type[IntEnum]) -> tuple[tuple[int, OperandType, int], ...]:
    """The scalars of a form: position, type, and the feature level that introduced it."""
    return tuple(
        (index, BOOL if name == "LAYOUT" else INT32, 3 if name in _SINCE_3 else 1)
        for name, index in _positions(names).items()
        if name not in _TENSORS
    )


@cache
def _counts(names: type[IntEnum], layout_required: bool) -> tuple[int, ...]:
    """The numbers of inputs that a form may have, the lowest first."""
    if layout_required:
        return (len(names),)
    layout = int(names["LAYOUT"])
    return tuple(sorted({layout, layout + 1, len(names)}))


def window_by_forms(
    op: OperationContext, forms: Forms, size: tuple[int, int] | None = None, lengths: tuple[int, int] | None = None
) -> Window:
    """Return the window of an operation. Raises HalError and UnknownYet.

    ``size`` is the filter's height and width if the operation has a filter; poolings have inputs for them. ``lengths``
    are the height and width that the window slides over, by default those of the first input.
    """
    positions = _positions(forms.of(op))
    channels_first = op.boolean(positions["LAYOUT"])
    if lengths is None:
        images = images_of(op, channels_first)
        lengths = images.height, images.width

    def number(name: str) -> int:
        index = positions.get(name)
        return 1 if index is None else op.integer(index, default=1)

    scheme = number("PADDING") if "PADDING" in positions else None
    taps = size or (number("FILTER_HEIGHT"), number("FILTER_WIDTH"))
    strides = number("STRIDE_HEIGHT"), number("STRIDE_WIDTH")
    dilations = number("DILATION_HEIGHT"), number("DILATION_WIDTH")
    if scheme is None:
        paddings = (number("PADDING_TOP"), number("PADDING_BOTTOM")), (number("PADDING_LEFT"), number("PADDING_RIGHT"))
        axes = [explicit_padding(op, *each) for each in zip(paddings, taps, strides, dilations, strict=True)]
    else:
        axes = [implicit_padding(op, scheme, *each) for each in zip(lengths, taps, strides, dilations, strict=True)]
    return Window(
        axes[0],
        axes[1],
        scheme,
        activation_of(op, positions["ACTIVATION"]),
        channels_first,
        _positive(op, "depth multiplier", number("MULTIPLIER")),
        _positive(op, "number of groups", number("GROUPS")),
    )


def layout_of(op: OperationContext, forms: Forms) -> bool:
    """Return whether the images have their channels first (NCHW). Raises UnknownYet."""
    return op.boolean(forms.of(op)["LAYOUT"])


def images_of(op: OperationContext, channels_first: bool, index: int = 0) -> Images:
    """Return the dimensions of an input that is a batch of images. Only the batch may be empty. Raises UnknownYet."""
    if channels_first:
        batch, channels, height, width = op.ranked(index, 4)
    else:
        batch, height, width, channels = op.ranked(index, 4)
    if op.executing and 0 in (height, width, channels):
        op.refuse(f"images of {height} x {width} with {channels} channels, expected no 0")
    return Images(batch, height, width, channels)


def filter_of(op: OperationContext, index: int) -> tuple[int, int, int, int]:
    """Return the dimensions of a filter, [a, height, width, b], all at least 1. Raises UnknownYet."""
    first, height, width, last = op.ranked(index, 4)
    if 0 in (first, height, width, last):
        if not op.executing:
            raise UnknownYet(op.input_name(index))
        op.refuse(f"a filter of {[first, height, width, last]}, expected no 0")
    return first, height, width, last


def windows_along(op: OperationContext, axis: Axis, length: int) -> int:
    """Return how many windows fit on an axis, at least one; 0 if its length is unknown. Refuse an axis too short."""
    if length == 0:
        return 0
    count = axis.output(length)
    if count < 1:
        op.refuse(
            f"a window of {axis.reach} elements does not fit on {length} elements padded by {axis.before} and "
            f"{axis.after}"
        )
    return count


def activation_of(op: OperationContext, index: int) -> FusedActivation:
    code = op.integer(index)
    if not 0 <= code <= 3:
        op.refuse(f"activation {code}, expected 0 to 3")
    return FusedActivation(code)


def implicit_padding(op: OperationContext, scheme: int, length: int, size: int, stride: int, dilation: int) -> Axis:
    """Pad an axis by a scheme. SAME yields ceil(length / stride) windows; an odd element of padding goes after."""
    if scheme not in (SAME, VALID):
        op.refuse(f"padding scheme {scheme}, expected 1 (SAME) or 2 (VALID)")
    _require_positive(op, size, stride, dilation)
    if scheme == VALID or length == 0:
        return Axis(size, stride, 0, 0, dilation)
    count = -(-length // stride)
    total = max(0, (count - 1) * stride + (size - 1) * dilation + 1 - length)
    return Axis(size, stride, total // 2, total - total // 2, dilation)


def explicit_padding(op: OperationContext, padding: tuple[int, int], size: int, stride: int, dilation: int) -> Axis:
    """Pad an axis by given numbers of elements, before and after."""
    if min(padding) < 0:
        op.refuse(f"paddings {padding[0]} and {padding[1]}, expected 0 or more")
    _require_positive(op, size, stride, dilation)
    return Axis(size, stride, *padding, dilation)


def _require_positive(op: OperationContext, size: int, stride: int, dilation: int) -> None:
    if min(stride, size, dilation) < 1:
        op.refuse(f"a window of stride {stride}, size {size} and dilation {dilation}, expected at least 1 each")


def _positive(op: OperationContext, what: str, number: int) -> int:
    if number < 1:
        op.refuse(f"{what} {number}, expected at least 1")
    return number
