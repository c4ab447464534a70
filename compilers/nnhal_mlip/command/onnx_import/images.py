"""Conv and pools of images with two axes."""

from __future__ import annotations

from nnhal_mlip.command.onnx_import.node_import import NodeImport
from nnhal_mlip.command.onnx_import.windows import OnnxWindow, window_of
from nnhal_mlip.flow.graph.flow_graph import Attribute

_NCHW, _OIHW = "NCHW", "OIHW"


def conv(each: NodeImport) -> bool:
    """A convolution, and a bias if there is one."""
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


def max_pool(each: NodeImport) -> bool:
    """The maximum of each window."""
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
    """The mean of each image and channel."""
    return len(each.shape()) == 4 and each.finish("global_avg_pool2d", [each.input()], {"layout": _NCHW})


def global_max_pool(each: NodeImport) -> bool:
    """The maximum of each image and channel."""
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
