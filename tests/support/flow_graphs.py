"""Flow graphs in few lines, with seeded random weights that keep activations near 1."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import DTypeLike

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowGraph, SourceNode
from nnhal_mlip.flow.graph.operators import image_axes, permutation

Pair = int | tuple[int, int]
Sides = int | tuple[int, int, int, int]


class GraphOf:
    """Builds a flow graph. Each method adds an operator and returns its value.

    The user's name of a node, and of its value, is ``name`` or ``<operator>_<number>``. Images are in ``layout``.
    """

    def __init__(self, layout: str = "NCHW", seed: int = 0, element_type: DTypeLike = np.float32) -> None:
        self.layout = layout
        self.element_type = np.dtype(element_type)
        self.builder = FlowGraphBuilder()
        self.number = 0
        self.random = np.random.default_rng(seed)

    def build(self, *outputs: str) -> FlowGraph:
        """Return the graph, with outputs of the same names as their values."""
        return self.builder.build({name: name for name in outputs})

    def input(self, *shape: int, name: str = "x") -> str:
        return self.builder.input(name, shape, self.element_type)

    def constant(self, array: Array, name: str = "constant") -> str:
        return self.builder.constant(name, array.astype(self.element_type))

    def random_constant(self, *shape: int, deviation: float = 1.0, name: str = "constant") -> str:
        """Add a constant with random values around 0."""
        return self.constant(self.random.normal(0.0, deviation, shape), name)

    def op(self, operator: str, *inputs: str, name: str = "", **attributes: Attribute) -> str:
        user_name = name or f"{operator}_{self.number}"
        source = SourceNode(self.number, user_name, operator)
        self.number += 1
        return self.builder.add(operator, inputs, attributes, (source,), user_name)

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.values[value].shape

    def conv(
        self,
        data: str,
        channels: int,
        kernel: Pair = 3,
        *,
        stride: Pair = 1,
        pad: Sides = 0,
        dilation: Pair = 1,
        groups: int = 1,
        kernel_layout: str = "",
        weight: str = "",
        name: str = "",
    ) -> str:
        """Add a convolution without a bias. ``weight`` is a value to use in place of random weights."""
        kernel_layout = kernel_layout or ("OIHW" if self.layout == "NCHW" else "OHWI")
        height, width = _pair(kernel)
        inner = self.shape(data)[self.layout.index("C")] // groups
        if not weight:
            deviation = sqrt(2.0 / (inner * height * width))
            values = self.random.normal(0.0, deviation, (channels, inner, height, width))
            weight = self.constant(values.transpose(permutation("OIHW", kernel_layout)), "weight")
        return self.op(
            "conv2d",
            data,
            weight,
            name=name,
            strides=_pair(stride),
            padding=_sides(pad),
            dilation=_pair(dilation),
            groups=groups,
            channels=channels,
            kernel_size=(height, width),
            data_layout=self.layout,
            kernel_layout=kernel_layout,
        )

    def dense(self, data: str, units: int, *, weight: str = "", name: str = "") -> str:
        """Add a dense layer without a bias."""
        inner = self.shape(data)[-1]
        weight = weight or self.random_constant(units, inner, deviation=sqrt(2.0 / inner), name="weight")
        return self.op("dense", data, weight, name=name)

    def bias(self, data: str, name: str = "") -> str:
        """Add a bias along the channels; along the last axis if the data is no image."""
        axis = self._channel_axis(data)
        values = self.random_constant(self.shape(data)[axis], deviation=0.1, name="bias")
        return self.op("bias_add", data, values, name=name, axis=axis)

    def batch_norm(self, data: str, gain: float = 1.0, *, name: str = "") -> str:
        """Add a batch normalisation that changes values a little, times a gain."""
        axis = self._channel_axis(data)
        count = self.shape(data)[axis]
        parameters = [
            self.constant(gain * self.random.uniform(0.8, 1.2, count), "gamma"),
            self.random_constant(count, deviation=0.1, name="beta"),
            self.random_constant(count, deviation=0.1, name="mean"),
            self.constant(self.random.uniform(0.8, 1.2, count), "variance"),
        ]
        return self.op("batch_norm", data, *parameters, name=name, axis=axis, epsilon=1e-5)

    def relu(self, data: str, name: str = "") -> str:
        return self.op("relu", data, name=name)

    def clip(self, data: str, low: float = 0.0, high: float = 6.0, name: str = "") -> str:
        return self.op("clip", data, name=name, a_min=low, a_max=high)

    def max_pool(
        self, data: str, size: Pair = 2, stride: Pair = 2, pad: Sides = 0, *, ceil_mode: bool = False, name: str = ""
    ) -> str:
        return self.op(
            "max_pool2d",
            data,
            name=name,
            pool_size=_pair(size),
            strides=_pair(stride),
            dilation=(1, 1),
            padding=_sides(pad),
            ceil_mode=ceil_mode,
            layout=self.layout,
        )

    def avg_pool(
        self,
        data: str,
        size: Pair = 2,
        stride: Pair = 2,
        pad: Sides = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        name: str = "",
    ) -> str:
        return self.op(
            "avg_pool2d",
            data,
            name=name,
            pool_size=_pair(size),
            strides=_pair(stride),
            dilation=(1, 1),
            padding=_sides(pad),
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            layout=self.layout,
        )

    def global_avg_pool(self, data: str, name: str = "") -> str:
        """Add the average of each image and channel."""
        return self.op("global_avg_pool2d", data, name=name, layout=self.layout)

    def pad(self, data: str, sides: Sides, *, value: float = 0.0, mode: str = "constant", name: str = "") -> str:
        """Add a padding of height and width."""
        top, left, bottom, right = _sides(sides)
        widths = [0] * 8
        row, column = image_axes(self.layout)
        widths[2 * row : 2 * row + 2] = [top, bottom]
        widths[2 * column : 2 * column + 2] = [left, right]
        return self.op("pad", data, name=name, pad_width=tuple(widths), pad_value=value, pad_mode=mode)

    def concat(self, *inputs: str, axis: int | None = None, name: str = "") -> str:
        """Add a concatenation, of the channels unless an axis is given."""
        return self.op("concatenate", *inputs, name=name, axis=self._channel_axis(inputs[0]) if axis is None else axis)

    def reshape(self, data: str, *shape: int, name: str = "") -> str:
        """Add a change of shape."""
        return self.op("reshape", data, name=name, newshape=shape)

    def flatten(self, data: str, name: str = "") -> str:
        return self.op("batch_flatten", data, name=name)

    def squeeze(self, data: str, *axes: int, name: str = "") -> str:
        return self.op("squeeze", data, name=name, axis=axes)

    def transpose(self, data: str, *axes: int, name: str = "") -> str:
        return self.op("transpose", data, name=name, axes=axes)

    def softmax(self, data: str, axis: int = -1, name: str = "") -> str:
        return self.op("softmax", data, name=name, axis=axis)

    def on_host(self, data: str) -> str:
        """Add a softmax along the second axis as an operator that only the host knows."""

        def softmax(arrays: Sequence[Array]) -> Sequence[Array]:
            powers = np.exp(arrays[0] - arrays[0].max(axis=1, keepdims=True))
            return [powers / powers.sum(axis=1, keepdims=True)]

        value = self.builder.values[data]
        return self.builder.add("onnx.Softmax", [data], {}, name="onnx_softmax", evaluate=softmax, results=[value])

    def _channel_axis(self, data: str) -> int:
        rank = len(self.shape(data))
        return self.layout.index("C") if rank == 4 else rank - 1


def random_inputs(graph: FlowGraph, seed: int = 0) -> dict[str, Array]:
    """Return random values around 0 for all inputs of a graph, in their types; quantised inputs in their full range."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name in graph.inputs:
        shape, element_type = graph.shape(name), graph.values[name].element_type
        if element_type.kind == "f":
            found[name] = random.normal(0.0, 1.0, shape).astype(element_type)
        else:
            found[name] = random.integers(-128, 128, shape).astype(element_type)
    return found


def operators(graph: FlowGraph) -> Sequence[str]:
    """Return the operators of a graph's nodes, in order."""
    return [str(node.operator) for node in graph.nodes]


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _sides(value: Sides) -> tuple[int, int, int, int]:
    return (value, value, value, value) if isinstance(value, int) else value
