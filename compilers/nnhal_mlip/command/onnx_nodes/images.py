"""Conv and pools of images with two axes, and their windows: ONNX's attributes as Relay's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_mlip.command.onnx_nodes.node_import import NodeImport
from nnhal_mlip.flow.graph.flow_graph import Attribute
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


_NCHW, _OIHW = "NCHW", "OIHW"
_FIRST_WITH_MODES = 11
_PLAIN_MODES = (
    ("asymmetric", "floor"),
    ("half_pixel", ""),
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("tf_half_pixel_for_nn", "floor"),
)
"""In which each pixel of an image that grows an integer number of times is that of its block."""


def conv(each: NodeImport) -> bool:
    if len(each.shape()) != 4:
        return False
    channels, _, *kernel = each.shape(1)
    window = window_of(each, kernel)
    attributes: dict[str, Attribute] = {
        "strides": window.strides,
        "padding": window.padding,
        "dilation": window.dilation,
        "groups": int(each.attribute("group", 1)),
        "channels": channels,
        "kernel_size": window.kernel,
        "data_layout": _NCHW,
        "kernel_layout": _OIHW,
    }
    if not each.has(2):
        return each.finish("conv2d", [each.input(0), each.input(1)], attributes)
    product = each.step("conv2d", [each.input(0), each.input(1)], attributes)
    return each.finish("bias_add", [product, each.input(2)], {"axis": 1})


def conv_transpose(each: NodeImport) -> bool:
    weights = each.constant(1)
    padded = each.attribute("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in each.attributes
    if len(each.shape()) != 4 or weights is None or padded:
        return False
    _, outputs, *kernel = weights.shape
    top, left, bottom, right = each.attribute("pads", (0, 0, 0, 0))
    groups = int(each.attribute("group", 1))
    attributes: dict[str, Attribute] = {
        "strides": _pair(each.attribute("strides", (1, 1))),
        "padding": (top, left, bottom, right),
        "output_padding": _pair(each.attribute("output_padding", (0, 0))),
        "dilation": _pair(each.attribute("dilations", (1, 1))),
        "groups": groups,
        "channels": outputs * groups,
        "kernel_size": _pair(kernel),
        "data_layout": _NCHW,
        "kernel_layout": "IOHW",
    }
    if not each.has(2):
        return each.finish("conv2d_transpose", [each.input(0), each.input(1)], attributes)
    product = each.step("conv2d_transpose", [each.input(0), each.input(1)], attributes)
    return each.finish("bias_add", [product, each.input(2)], {"axis": 1})


def resize(each: NodeImport) -> bool:
    """Images of which each pixel is there an integer number of times."""
    shape, sized = each.shape(), each.results[each.outputs[0]].shape
    if len(shape) != 4 or not sized or 0 in sized or each.attribute("mode", "nearest") != "nearest":
        return False
    if each.opset < _FIRST_WITH_MODES or "axes" in each.attributes:
        return False
    times = [int(large // small) for large, small in zip(sized, shape, strict=True)]
    exact = all(large == small * factor for large, small, factor in zip(sized, shape, times, strict=True))
    modes = each.attribute("coordinate_transformation_mode", "half_pixel"), each.attribute("nearest_mode", "")
    odd = all(factor % 2 for factor in times)  # the pixel in the middle of each block is its own
    if not exact or times[:2] != [1, 1] or not (modes in _PLAIN_MODES or (modes[0] == "half_pixel" and odd)):
        return False
    attributes: dict[str, Attribute] = {"scale_h": times[2], "scale_w": times[3], "layout": _NCHW}
    return each.finish("upsampling", [each.input()], attributes)


def max_pool(each: NodeImport) -> bool:
    if len(each.shape()) != 4:
        return False
    window = window_of(each, each.attribute("kernel_shape", ()))
    return _pool(each, "max_pool2d", window, window.covering, ceil_mode=False)


def average_pool(each: NodeImport) -> bool:
    """The mean of each window, of its padding too if that is counted."""
    if len(each.shape()) != 4:
        return False
    window = window_of(each, each.attribute("kernel_shape", ()))
    counted = bool(each.attribute("count_include_pad", 0))
    if not counted:
        return _pool(each, "avg_pool2d", window, window.covering, ceil_mode=False, count_include_pad=False)
    # The padding that is counted ends where the model says, so it cannot be extended to the ends of the windows.
    wanted = window.counts(window.covering, ceil_mode=False)
    for ceil_mode in (False, True):
        if window.counts(window.padding, ceil_mode) == wanted:
            return _pool(each, "avg_pool2d", window, window.padding, ceil_mode=ceil_mode, count_include_pad=True)
    return False


def global_average_pool(each: NodeImport) -> bool:
    return len(each.shape()) == 4 and each.finish("global_avg_pool2d", [each.input()], {"layout": _NCHW})


def global_max_pool(each: NodeImport) -> bool:
    return len(each.shape()) == 4 and each.finish("global_max_pool2d", [each.input()], {"layout": _NCHW})


def _pool(
    each: NodeImport, operator: str, window: OnnxWindow, padding: tuple[int, int, int, int], **flags: bool
) -> bool:
    attributes: dict[str, Attribute] = {
        "pool_size": window.kernel,
        "strides": window.strides,
        "dilation": window.dilation,
        "padding": padding,
        "layout": _NCHW,
    }
    return each.finish(operator, [each.input()], {**attributes, **flags})
