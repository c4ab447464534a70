"""Windows of Conv and pools: ONNX's attributes as Relay's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_mlip.command.onnx_import.node_import import NodeImport
from nnhal_mlip.flow.graph.windows import extent


@dataclass(frozen=True, slots=True)
class OnnxWindow:
    """A window over height and width."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, left, bottom, right."""
    overhang: tuple[int, int]
    """With ceil_mode, how far the last windows reach beyond the padding; negative if they end before."""
    lengths: tuple[int, int]
    """The image's height and width."""

    @property
    def covering(self) -> tuple[int, int, int, int]:
        """The padding up to the ends of the last windows: the same positions without ceil_mode."""
        top, left, bottom, right = self.padding
        return (top, left, max(0, bottom + self.overhang[0]), max(0, right + self.overhang[1]))

    def counts(self, padding: Sequence[int], ceil_mode: bool) -> tuple[int, ...]:
        """Return the number of positions along height and width that Relay finds with a padding."""
        return tuple(
            extent(length, self.kernel[i], self.strides[i], self.dilation[i], padding[i] + padding[i + 2], ceil_mode)
            for i, length in enumerate(self.lengths)
        )


def window_of(each: NodeImport, kernel: Sequence[int]) -> OnnxWindow:
    """Return the window of a node whose first input has two image axes."""
    axes = [_axis(each, kernel, index) for index in range(2)]
    (top, bottom, row_overhang), (left, right, column_overhang) = axes
    _, _, height, width = each.shape()
    rows, columns = kernel
    return OnnxWindow(
        (int(rows), int(columns)),
        _pair(each.attribute("strides", (1, 1))),
        _pair(each.attribute("dilations", (1, 1))),
        (top, left, bottom, right),
        (row_overhang, column_overhang),
        (height, width),
    )


def _axis(each: NodeImport, kernel: Sequence[int], index: int) -> tuple[int, int, int]:
    """Return the padding before and after, and the overhang."""
    stride = each.attribute("strides", (1, 1))[index]
    reach = (kernel[index] - 1) * each.attribute("dilations", (1, 1))[index] + 1
    length = each.shape()[2 + index]
    automatic = each.attribute("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        total = max(0, (-(-length // stride) - 1) * stride + reach - length)
        less, more = total // 2, total - total // 2
        return (less, more, 0) if automatic == "SAME_UPPER" else (more, less, 0)
    pads = each.attribute("pads", (0, 0, 0, 0)) if automatic == "NOTSET" else (0, 0, 0, 0)
    before, after = pads[index], pads[2 + index]
    if not each.attribute("ceil_mode", 0):
        return before, after, 0
    count = -(-(length + before + after - reach) // stride) + 1
    if (count - 1) * stride >= length + before:  # the last one would hold nothing but padding
        count -= 1
    return before, after, (count - 1) * stride + reach - length - before - after


def _pair(values: Sequence[int]) -> tuple[int, int]:
    rows, columns = values
    return int(rows), int(columns)
