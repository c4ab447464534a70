"""Windows that slide over images: the attributes of Conv and poolings as the HAL's explicit paddings and strides.

Images of one axis, such as audio, get a height of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.builder import NodeBuilder


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One axis of a window, in elements."""

    size: int
    stride: int = 1
    before: int = 0
    """Padding before the image."""
    after: int = 0
    """Padding after the image."""
    dilation: int = 1
    overhang: int = 0
    """How far the last window reaches beyond the padding with ceil_mode; negative if it ends before."""

    @property
    def end(self) -> int:
        """The padding after the image; with ceil_mode up to the end of the last window."""
        return max(0, self.after + self.overhang)

    def covers(self, length: int) -> bool:
        """Return whether there is one window, which is as long as the image and its padding."""
        return 0 < length == (self.size - 1) * self.dilation + 1 - self.before - self.end


@dataclass(frozen=True, slots=True)
class ImageWindow:
    """A window over the two axes of an image."""

    height: WindowAxis
    width: WindowAxis

    @property
    def padded(self) -> bool:
        return any((self.height.before, self.height.after, self.width.before, self.width.after))

    @property
    def dilated(self) -> bool:
        """Return whether the window has gaps."""
        return self.height.dilation > 1 or self.width.dilation > 1

    def without_idle_strides(self, images: Dimensions) -> ImageWindow:
        """Return the window with stride 1 on each axis that it covers at once: some devices refuse long strides."""
        lengths = images[2:] if len(images) == 4 else (1, *images[2:])
        axes = (self.height, self.width)
        return ImageWindow(*(replace(a, stride=1) if a.covers(n) else a for a, n in zip(axes, lengths, strict=True)))

    def paddings(self, b: NodeBuilder) -> list[int]:
        """Add the paddings: left, right, top and bottom."""
        sides = (self.width.before, self.width.end, self.height.before, self.height.end)
        return [b.int32(elements) for elements in sides]

    def strides(self, b: NodeBuilder) -> list[int]:
        """Add the strides, width first."""
        return [b.int32(self.width.stride), b.int32(self.height.stride)]

    def dilations(self, b: NodeBuilder) -> list[int]:
        """Add the dilations, width first."""
        return [b.int32(self.width.dilation), b.int32(self.height.dilation)]

    def sizes(self, b: NodeBuilder) -> list[int]:
        """Add the sizes, width first."""
        return [b.int32(self.width.size), b.int32(self.height.size)]


def window_of(b: NodeBuilder, kernel: Sequence[int]) -> ImageWindow:
    """Return the window of a node with one or two image axes."""
    axes = [_axis(b, kernel, index) for index in range(len(kernel))]
    if len(axes) == 1:
        return ImageWindow(WindowAxis(1), axes[0])
    return ImageWindow(axes[0], axes[1])


def require_images(b: NodeBuilder) -> None:
    """Raise UnsupportedNode if the first input is not a batch of images of one or two axes."""
    rank = len(b.shape(0))
    if rank not in (3, 4):
        raise b.node.unsupported(f"an input of rank {rank}", "rank 3 or 4: batch, channels and one or two image axes")


def image(b: NodeBuilder, operand: int, shape: Dimensions) -> int:
    """Return an operand as images of two axes: images of one axis get a height of 1."""
    return operand if len(shape) == 4 else b.reshape(operand, (*shape[:2], 1, shape[2]))


def finish_image(b: NodeBuilder, code: OperationType, inputs: Sequence[int]) -> None:
    """Add the operation that gives the node's result from images of two axes."""
    if len(b.shape(0)) == 4:
        b.finish(code, inputs)
    else:
        b.finish_reshape(b.apply(code, inputs, like=b.result()))


def _axis(b: NodeBuilder, kernel: Sequence[int], index: int) -> WindowAxis:
    count = len(kernel)
    stride = b.attribute("strides", [1] * count)[index]
    dilation = b.attribute("dilations", [1] * count)[index]
    reach = (kernel[index] - 1) * dilation + 1
    length = b.shape(0)[2 + index]
    automatic = b.attribute("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        _require_known(b, length, f"auto_pad {automatic}")
        total = max(0, (-(-length // stride) - 1) * stride + reach - length)
        less, more = total // 2, total - total // 2
        before, after = (less, more) if automatic == "SAME_UPPER" else (more, less)
        return WindowAxis(kernel[index], stride, before, after, dilation)
    pads = b.attribute("pads", [0] * (2 * count)) if automatic == "NOTSET" else [0] * (2 * count)
    before, after = pads[index], pads[count + index]
    if b.attribute("ceil_mode", 0):
        _require_known(b, length, "ceil_mode")
        windows = -(-(length + before + after - reach) // stride) + 1
        if (windows - 1) * stride >= length + before:  # the last one would hold nothing but padding
            windows -= 1
        overhang = (windows - 1) * stride + reach - length - before - after
        return WindowAxis(kernel[index], stride, before, after, dilation, overhang)
    return WindowAxis(kernel[index], stride, before, after, dilation)


def _require_known(b: NodeBuilder, length: int, what: str) -> None:
    if not length:
        raise b.node.unsupported(f"{what} on an axis of unknown length", "fixed shapes of the model's inputs")
