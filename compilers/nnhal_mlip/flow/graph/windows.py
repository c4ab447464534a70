"""The positions of windows along axes, and the shapes of convolutions and pools."""

from __future__ import annotations

from nnhal.types.layout import describe
from nnhal_mlip.flow.graph.inference import Inference
from nnhal_mlip.flow.graph.operators import Operator, image_axes, permutation


def extent(length: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool = False) -> int:
    """Return how often a window fits into an axis; 0 or less if it does not fit.

    ``padding`` counts both ends. With ``ceil_mode`` the last window may reach beyond the padding.
    """
    room = length + padding - ((kernel - 1) * dilation + 1)
    if room < 0:
        return 0
    return (-(-room // stride) if ceil_mode else room // stride) + 1


def reach(count: int, kernel: int, stride: int, dilation: int, before: int) -> list[range]:
    """Return the elements that the window has at each of its positions. Element 0 is behind ``before`` of padding."""
    starts = range(-before, count * stride - before, stride)
    return [range(start, start + kernel * dilation, dilation) for start in starts]


def all_touch(windows: list[range], first: int, end: int) -> bool:
    """Return whether each window has an element from ``first`` on and before ``end``."""
    return all(any(first <= element < end for element in window) for window in windows)


def conv2d(asked: Inference) -> tuple[int, ...]:
    """Return the shape of a convolution, in the data's layout."""
    data, weight = asked.require_ranks(0, 4), asked.require_ranks(1, 4)
    layout = asked.word("data_layout", letters="NCHW")
    kernel_layout = asked.word("kernel_layout", letters="OIHW")
    outputs, inputs, *kernel = (weight[axis] for axis in permutation(kernel_layout, "OIHW"))
    channels = data[layout.index("C")]
    groups = asked.integer("groups")
    if groups < 1 or outputs % groups or (channels and inputs * groups != channels):
        asked.refuse(
            f"{channels} input channels, {outputs} output channels, weights of shape {describe(weight)} in"
            f" {kernel_layout} and {groups} groups",
            "groups that divide both, and weights with the input channels of a group",
        )
    if asked.integer("channels") != outputs or list(asked.integers("kernel_size", 2)) != kernel:
        asked.refuse(
            f"channels {asked.attributes['channels']} and kernel_size {asked.attributes['kernel_size']}",
            f"{outputs} and {tuple(kernel)}, as the weights of shape {describe(weight)} in {kernel_layout} have them",
        )
    result = list(_slid(asked, data, layout, (kernel[0], kernel[1])))
    result[layout.index("C")] = outputs
    return tuple(result)


def conv2d_transpose(asked: Inference) -> tuple[int, ...]:
    """Return the shape of a transposed convolution, in the data's layout."""
    data, weight = asked.require_ranks(0, 4), asked.require_ranks(1, 4)
    layout, kernel_layout = asked.word("data_layout", letters="NCHW"), asked.word("kernel_layout", letters="IOHW")
    inputs, outputs, *kernel = (weight[axis] for axis in permutation(kernel_layout, "IOHW"))
    groups, channels = asked.integer("groups"), data[layout.index("C")]
    if groups < 1 or inputs % groups or (channels and inputs != channels):
        asked.refuse(f"{channels} input channels, weights of shape {describe(weight)}", "as many input channels")
    strides, dilation = asked.integers("strides", 2, least=1), asked.integers("dilation", 2, least=1)
    padding, more = asked.integers("padding", 4, least=0), asked.integers("output_padding", 2, least=0)
    result = list(data)
    for index, axis in enumerate(image_axes(layout)):
        if data[axis]:
            around = padding[index] + padding[index + 2]
            whole = (data[axis] - 1) * strides[index] + (kernel[index] - 1) * dilation[index] + 1
            result[axis] = whole - around + more[index]
            if result[axis] < 1:
                asked.refuse(f"padding {padding}", "less, so that something is left")
    result[layout.index("C")] = outputs * groups
    return tuple(result)


def upsampling(asked: Inference) -> tuple[int, ...]:
    """Return the shape of images of which each pixel is there several times."""
    data, layout = asked.require_ranks(0, 4), asked.word("layout", letters="NCHW")
    height, width = image_axes(layout)
    times = {height: asked.integer("scale_h"), width: asked.integer("scale_w")}
    if min(times.values()) < 1:
        asked.refuse(f"scales {tuple(times.values())}", "at least 1")
    return tuple(length * times.get(axis, 1) for axis, length in enumerate(data))


def pool2d(asked: Inference) -> tuple[int, ...]:
    """Return the shape of a pool of the maximum or the average."""
    data, layout = asked.require_ranks(0, 4), asked.word("layout", letters="NCHW")
    height, width = asked.integers("pool_size", 2, least=1)
    if asked.operator == Operator.AVG_POOL2D:
        asked.flag("count_include_pad")
    return _slid(asked, data, layout, (height, width), asked.flag("ceil_mode"))


def global_pool2d(asked: Inference) -> tuple[int, ...]:
    """Return the shape of one element for each image and channel."""
    data, layout = asked.require_ranks(0, 4), asked.word("layout", letters="NCHW")
    return tuple(1 if axis in image_axes(layout) else length for axis, length in enumerate(data))


def _slid(
    asked: Inference, data: tuple[int, ...], layout: str, kernel: tuple[int, int], ceil_mode: bool = False
) -> tuple[int, ...]:
    strides, dilation = asked.integers("strides", 2, least=1), asked.integers("dilation", 2, least=1)
    padding = asked.integers("padding", 4, least=0)
    result = list(data)
    for index, axis in enumerate(image_axes(layout)):
        if not data[axis]:
            continue
        around = padding[index] + padding[index + 2]
        result[axis] = extent(data[axis], kernel[index], strides[index], dilation[index], around, ceil_mode)
        if result[axis] < 1:
            asked.refuse(
                f"a window of {kernel} with dilation {dilation} on data of shape {describe(data)} in {layout}"
                f" with padding {padding}",
                "a window that fits",
            )
    return tuple(result)
