"""Convolutions: a matrix product over the elements of all windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.layout_words import permutation
from nnhal_mlip.flow.graph.reference.images import ImageWindows, channels_last, laid_out


def conv2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Convolve images with weights, group by group."""
    layout = node.text("data_layout")
    data = channels_last(inputs[0], layout)
    weight = inputs[1].transpose(permutation(node.text("kernel_layout"), "OHWI"))
    outputs, height, width, inner = weight.shape
    windows = ImageWindows(node, (height, width), (data.shape[1], data.shape[2]))
    padded = windows.padded(data, 0.0)
    groups = node.integer("groups")
    if inner == 1 and groups > 1:
        result = _depthwise(windows, padded, weight[..., 0])
    else:
        each = outputs // groups
        parts = [
            _product(windows, padded[..., g * inner : (g + 1) * inner], weight[g * each : (g + 1) * each])
            for g in range(groups)
        ]
        result = parts[0] if groups == 1 else np.concatenate(parts, axis=-1)
    return laid_out(result, layout)


def _product(windows: ImageWindows, padded: Array, weight: Array) -> Array:
    outputs = weight.shape[0]
    batch, channels = padded.shape[0], padded.shape[-1]
    pieces = [piece for _, _, piece in windows.shifted(padded)]
    columns = pieces[0] if len(pieces) == 1 else np.stack(pieces, axis=3)
    matrix = columns.reshape(-1, len(pieces) * channels)
    return (matrix @ weight.reshape(outputs, -1).T).reshape(batch, windows.rows, windows.columns, outputs)


def _depthwise(windows: ImageWindows, padded: Array, weight: Array) -> Array:
    repeats = weight.shape[0] // padded.shape[-1]
    source = padded if repeats == 1 else np.repeat(padded, repeats, axis=-1)
    result = np.zeros((padded.shape[0], windows.rows, windows.columns, weight.shape[0]), padded.dtype)
    for row, column, piece in windows.shifted(source):
        result += piece * weight[:, row, column]
    return result
