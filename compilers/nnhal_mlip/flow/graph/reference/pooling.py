"""Pools of the maximum and the average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.layout_words import image_axes
from nnhal_mlip.flow.graph.reference.images import ImageWindows, channels_last, laid_out
from nnhal_mlip.flow.graph.reference.movement import mean_of


def max_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The maximum of each window, without its padding."""
    windows, data = _windows(node, inputs[0])
    pieces = [piece for _, _, piece in windows.shifted(windows.padded(data, -np.inf))]
    result = pieces[0].copy()
    for piece in pieces[1:]:
        np.maximum(result, piece, out=result)
    return laid_out(result, node.text("layout"))


def avg_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The mean of each window, without its padding unless that is counted; never of what lies beyond the padding."""
    windows, data = _windows(node, inputs[0])
    total = sum(piece for _, _, piece in windows.shifted(windows.padded(data, 0.0)))
    counted = float(bool(node.integer("count_include_pad")))
    inside = windows.padded(np.ones((1, *data.shape[1:3], 1), np.float32), counted, beyond=0.0)
    count = sum(piece for _, _, piece in windows.shifted(inside))
    return laid_out(np.asarray(total / count), node.text("layout"))


def global_avg_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The mean of each image, channel by channel."""
    return mean_of(inputs[0], image_axes(node.text("layout")), keepdims=True)


def global_max_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The maximum of each image, channel by channel."""
    return np.asarray(inputs[0].max(axis=image_axes(node.text("layout")), keepdims=True))


def _windows(node: FlowNode, images: Array) -> tuple[ImageWindows, Array]:
    data = channels_last(images, node.text("layout"))
    height, width = node.integers("pool_size")
    return ImageWindows(node, (height, width), (data.shape[1], data.shape[2]), bool(node.integer("ceil_mode"))), data
