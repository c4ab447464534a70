"""Operators that move elements, and those that combine them along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.operators import image_axes, permutation


def copy(data: Array) -> Array:
    return data


def batch_flatten(data: Array) -> Array:
    """All axes but the first become one."""
    return data.reshape(data.shape[0], -1)


def dense(data: Array, weight: Array) -> Array:
    """The matrix product of the data with the weights transposed."""
    return np.asarray(data @ weight.T)


def reshape(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Return the same elements in another shape."""
    return inputs[0].reshape(node.integers("newshape"))


def squeeze(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Axes of length 1 go."""
    return np.squeeze(inputs[0], axis=node.integers("axis"))


def strided_slice(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Some elements along an axis."""
    axis = node.integer("axis") % inputs[0].ndim
    index = [slice(None)] * inputs[0].ndim
    index[axis] = slice(node.integer("begin"), node.integer("end"))
    return inputs[0][tuple(index)]


def upsampling(node: FlowNode, inputs: Sequence[Array]) -> Array:
    height, width = image_axes(node.text("layout"))
    return inputs[0].repeat(node.integer("scale_h"), axis=height).repeat(node.integer("scale_w"), axis=width)


def transpose(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The axes in another order."""
    return np.ascontiguousarray(inputs[0].transpose(node.integers("axes")))


def layout_transform(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The axes in the order of another layout."""
    axes = permutation(node.text("src_layout"), node.text("dst_layout"))
    return np.ascontiguousarray(inputs[0].transpose(axes))


def concatenate(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Tensors one behind another along an axis."""
    return np.concatenate(inputs, axis=node.integer("axis"))


def pad(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """More elements at the ends of axes: constant, repeated or mirrored."""
    widths = node.integers("pad_width")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    mode: Any = node.text("pad_mode")
    if mode == "constant":
        return np.pad(inputs[0], pairs, constant_values=node.real("pad_value"))
    return np.asarray(np.pad(inputs[0], pairs, mode=mode))


def mean(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The mean along axes."""
    return mean_of(inputs[0], node.integers("axis"), keepdims=bool(node.integer("keepdims")))


def mean_of(data: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    """Return the mean along axes, summed in float64 since numpy's order of summing depends on the axes."""
    return np.asarray(data.mean(axis=axes, keepdims=keepdims, dtype=np.float64), np.float32)
