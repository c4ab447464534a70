"""Images of a lowered graph that ONNX Runtime can keep blocked, with their makers and readers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

CHANNEL_AXIS = 1
GRAIN = 4
"""ONNX Runtime blocks a dense convolution if its input has less than a block, or a multiple of so many channels."""
_RANK = 4
_FLOAT32 = np.dtype(np.float32)


class Images:
    """Float images with channels first that begin with a convolution, and what may become of them.

    Operations other than convolutions make zeros of zeros, so that channels without content stay so, or, if
    ``with_any_value``, anything; then an image may also be the sum of one and what is none.
    """

    def __init__(self, graph: LoweredGraph, with_any_value: bool = False) -> None:
        self._constants = graph.constants
        self._with_any_value = with_any_value
        self.makers: dict[str, LoweredNode] = {}
        self.readers: dict[str, list[LoweredNode]] = defaultdict(list)
        self.channels: dict[str, int] = {}
        """The number of channels of each image."""
        self._filters: dict[str, Array] = {}
        for node in graph.nodes:
            for name in node.outputs:
                self.makers[name] = node
            for name in node.inputs:
                self.readers[name].append(node)
            channels = self._made_channels(node)
            if channels:
                self.channels[node.outputs[0]] = channels

    def weights(self, node: LoweredNode) -> Array | None:
        """The constant filter of a convolution when the graph was looked at (see ``filter_of``)."""
        return self._filters.get(node.outputs[0])

    def is_dense(self, node: LoweredNode) -> bool:
        """Return whether a node is a convolution that reads all channels for each of its own."""
        return self.weights(node) is not None and node.attributes.get("group", 1) == 1

    def is_depthwise(self, node: LoweredNode) -> bool:
        """Return whether a node is a convolution of one filter for each channel."""
        weights = self.weights(node)
        return weights is not None and not self.is_dense(node) and node.attributes["group"] == len(weights)

    def _made_channels(self, node: LoweredNode) -> int:
        """The channels of the image that a node makes; 0 if it makes none."""
        weights = filter_of(self._constants, node)
        if weights is not None:
            self._filters[node.outputs[0]] = weights
            group = node.attributes.get("group", 1)
            return len(weights) if group == 1 else self.channels.get(node.inputs[0], 0) if group == len(weights) else 0
        read = node.inputs if node.type in ("Add", "Mul") else node.inputs[:1]
        given = max([self.channels.get(name, 0) for name in read], default=0)
        if given and node.type == "Pad":
            added = added_channels(self._constants, node)
            return 0 if added is None else given + added
        return given if given and self._keeps_channels(node, given) else 0

    def _keeps_channels(self, node: LoweredNode, channels: int) -> bool:
        """Return whether the output of a node has the channels of the image that it reads, and their zeros."""
        bounds = [self._constants.get(name) for name in node.inputs[1:] if name]
        match node.type:
            case "HardSwish" | "LeakyRelu" | "Relu" | "Tanh" | "AveragePool" | "MaxPool":
                return True
            case "HardSigmoid" | "Sigmoid":
                return self._with_any_value
            case "Clip":
                return len(bounds) == 2 and self._is_bound(bounds[0], 1) and self._is_bound(bounds[1], -1)
            case "Max" | "Min":
                return len(bounds) == 1 and self._is_bound(bounds[0], 1 if node.type == "Max" else -1)
            case "PRelu":
                return self._vector(node.inputs[1], channels)
            case "Add" | "Mul":
                return all(self._combines(node, name, channels) for name in node.inputs)
            case "Resize":
                return len(node.inputs) == _RANK and bounds[0] is not None and bounds[0][CHANNEL_AXIS] == channels
        return False

    def _is_bound(self, bound: Array | None, side: int) -> bool:
        """True if a bound is a constant for all elements that lets zeros pass. ``side`` is 1 for a least value."""
        if bound is None or bound.size != 1 or bound.dtype != _FLOAT32:
            return False
        return self._with_any_value or side * bound.item() <= 0

    def _combines(self, node: LoweredNode, name: str, channels: int) -> bool:
        if name not in self._constants:
            is_any = self._with_any_value and node.type == "Add" and channels > 1
            return self.channels.get(name, channels if is_any else 0) == channels
        keeps_zeros = node.type == "Mul" or self._with_any_value
        return self._vector(name, channels) and (keeps_zeros or self._constants[name].size > 1)

    def _vector(self, name: str, channels: int) -> bool:
        """Return whether a tensor is a constant that has one number for each channel, or one for all."""
        values = self._constants.get(name)
        if values is None or values.dtype != _FLOAT32 or values.ndim > _RANK:
            return False
        return (1,) * (_RANK - values.ndim) + values.shape in ((1, channels, 1, 1), (1, 1, 1, 1))


def filter_of(constants: Mapping[str, Array], node: LoweredNode) -> Array | None:
    """Return the constant filter of a convolution of floats in two dimensions, whose bias is constant too."""
    weights = constants.get(node.inputs[1]) if node.type == "Conv" else None
    if weights is None or weights.ndim != _RANK or weights.dtype != _FLOAT32:
        return None
    return weights if constants.keys() >= set(node.inputs[2:]) else None


def added_channels(constants: Mapping[str, Array], node: LoweredNode) -> int | None:
    """Return how many channels a Pad of images adds at the end, if it pads with zeros; 0 for rows and columns only."""
    if node.type != "Pad" or "mode" in node.attributes:
        return None
    paddings, value = (constants.get(name) for name in node.inputs[1:3])
    if paddings is None or value is None or value.any() or paddings.size != 2 * _RANK:
        return None
    before, after = paddings[:_RANK], paddings[_RANK:]
    if before[0] or after[0] or before[CHANNEL_AXIS] or (paddings < 0).any():
        return None
    return int(after[CHANNEL_AXIS])
