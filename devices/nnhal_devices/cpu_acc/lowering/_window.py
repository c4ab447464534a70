"""Windows in ONNX's terms: attributes of its convolutions and poolings."""

from __future__ import annotations

from nnhal.operations.windows import Window
from nnhal_devices.cpu_acc.graph import Attribute
from nnhal_devices.cpu_acc.layout import Layout


def image_layout(window: Window) -> Layout:
    """The layout in which ONNX finds channels first."""
    return Layout.GIVEN if window.channels_first else Layout.MOVED


def convolution_attributes(window: Window, groups: int) -> dict[str, Attribute]:
    """Strides, paddings, dilations and groups. ONNX takes the kernel's size from the filter."""
    return _attributes(window) | {"dilations": [window.height.dilation, window.width.dilation], "group": groups}


def pooling_attributes(window: Window) -> dict[str, Attribute]:
    """Size, strides and paddings."""
    return _attributes(window) | {"kernel_shape": [window.height.size, window.width.size]}


def _attributes(window: Window) -> dict[str, Attribute]:
    height, width = window.height, window.width
    return {
        "strides": [height.stride, width.stride],
        "pads": [height.before, width.before, height.after, width.after],
    }
