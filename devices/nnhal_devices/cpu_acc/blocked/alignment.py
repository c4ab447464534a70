"""Give images as many channels as fill whole blocks.

ONNX Runtime blocks depthwise convolutions, poolings and resizes only if their channels fill whole blocks. Channels are
added with filters of zeros. They hold zeros in all images up to the next convolution, which has zeros as their weights.
An operation that needs the real channels reads a slice.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from nnhal.arrays import Array
from nnhal_devices.cpu_acc.blocked.images import CHANNEL_AXIS, GRAIN, Images
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

_WIDEST_COPY = 64
"""The most channels that a convolution with ones copies faster than a Pad outside of the blocked layout does."""
_LARGEST_GROWTH = 2
"""Images with so few channels that they would grow by more stay as they are."""
_GAINING = frozenset({"AveragePool", "Max", "MaxPool", "Min", "Pad", "PRelu", "Resize"})
"""What is blocked if its channels fill whole blocks, as depthwise convolutions are."""


def align_channels(graph: LoweredGraph, block: int) -> None:
    """Add channels where operations gain more than slices cost, and pad channels by convolutions."""
    alignment = _Alignment(graph, block)
    for node in graph.nodes:
        if node.outputs[0] in alignment.images.channels:
            alignment.widen(node)
    alignment.cut()


class _Alignment:
    """The widths of the images of a graph: their numbers of channels, with those that are added."""

    def __init__(self, graph: LoweredGraph, block: int) -> None:
        self._graph = graph
        self._block = block
        self.images = Images(graph)
        self._widths = dict(self.images.channels)
        for members in self._groups():
            width = -(-self.images.channels[members[0]] // block) * block
            if self._gains(members, width):
                self._widths.update(dict.fromkeys(members, width))

    def widen(self, node: LoweredNode) -> None:
        """Give the output of a node its width."""
        name, images = node.outputs[0], self.images
        width, channels = self._widths[name], images.channels[name]
        if node.type == "Pad":
            self._pad(node)
        elif images.weights(node) is not None:
            self._convolve(node, width)
        elif width > channels and (node.type in ("Add", "Mul", "PRelu")):
            node.inputs = [self._wide_vector(each, width) for each in node.inputs]
        elif width > channels and node.type == "Resize":
            sizes = self._graph.constants[node.inputs[-1]].copy()
            sizes[CHANNEL_AXIS] = width
            node.inputs[-1] = self._graph.constant(sizes)

    def cut(self) -> None:
        """Slice the real channels out for what reads no others."""
        graph, nodes = self._graph, list[LoweredNode]()
        for node in graph.nodes:
            nodes.append(node)
            name = node.outputs[0]
            channels = self.images.channels.get(name, 0)
            if self._widths.get(name, 0) > channels and (name in graph.outputs or self._strangers(name)):
                wide = node.outputs[0] = graph.name()
                for reader in self.images.readers[name]:
                    if self._accepts(reader, name):
                        reader.inputs = [wide if each == name else each for each in reader.inputs]
                bounds = [graph.integers([value]) for value in (0, channels, CHANNEL_AXIS)]
                nodes.append(LoweredNode("Slice", [wide, *bounds], [name], {}, node.place))
        graph.nodes = nodes

    def _groups(self) -> list[list[str]]:
        """Images that must have the same width."""
        channels, roots = self.images.channels, {name: name for name in self.images.channels}

        def root(name: str) -> str:
            while roots[name] != name:
                name = roots[name]
            return name

        for name in channels:
            node = self.images.makers[name]
            if node.type != "Pad" and not self.images.is_dense(node):
                for each in node.inputs:
                    if each in channels:
                        roots[root(each)] = root(name)
        members: dict[str, list[str]] = {}
        for name in channels:
            members.setdefault(root(name), []).append(name)
        return list(members.values())

    def _gains(self, members: list[str], width: int) -> bool:
        channels = self.images.channels[members[0]]
        if width == channels or width > _LARGEST_GROWTH * channels:
            return False
        unblocked = channels < self._block or channels % GRAIN
        gains: Counter[bool] = Counter()
        for name in members:
            maker = self.images.makers[name]
            gains[True] += maker.type in _GAINING or self.images.is_depthwise(maker)
            for reader in self.images.readers[name]:
                gains[True] += reader.type == "Pad" or (unblocked and self.images.is_dense(reader))
            gains[False] += name in self._graph.outputs or bool(self._strangers(name))
        return gains[True] > gains[False]

    def _strangers(self, name: str) -> list[LoweredNode]:
        return [reader for reader in self.images.readers[name] if not self._accepts(reader, name)]

    def _accepts(self, reader: LoweredNode, name: str) -> bool:
        """Return whether a node reads an image with added channels."""
        if reader.type == "Pad":
            return self._widths.get(reader.outputs[0], 0) >= self._widths[name]
        return reader.outputs[0] in self.images.channels

    def _convolve(self, node: LoweredNode, width: int) -> None:
        graph, weights = self._graph, self.images.weights(node)
        assert weights is not None
        depth = weights.shape[1]
        if self.images.is_dense(node):
            depth = self._widths.get(node.inputs[0], depth)
        elif width > len(weights):
            node.attributes = {**node.attributes, "group": width}
        if (width, depth) == weights.shape[:2]:
            return
        node.inputs[1] = graph.constant(_extended(weights, (width, depth)))
        if len(node.inputs) > 2 and width > len(weights):
            node.inputs[2] = graph.constant(_extended(graph.constants[node.inputs[2]], (width,)))

    def _wide_vector(self, name: str, width: int) -> str:
        values = self._graph.constants.get(name)
        if values is None or values.size == 1:
            return name
        return self._graph.constant(_extended(values.reshape(1, -1, 1, 1), (1, width)))

    def _pad(self, node: LoweredNode) -> None:
        """Pad to another width: by nothing, by a convolution with ones, or as it was."""
        given, asked = node.inputs[0], self._widths[node.outputs[0]]
        paddings = self._graph.constants[node.inputs[1]].copy()
        accepted = self._accepts(node, given)
        width = self._widths[given] if accepted else self.images.channels[given]
        paddings[-4 + CHANNEL_AXIS] = asked - width
        if not paddings.any():
            node.type, node.inputs = "Identity", [given]
        elif accepted and asked > width and np.count_nonzero(paddings) == 1 and self._copies(width):
            ones = np.eye(asked, width, dtype=np.float32).reshape(asked, width, 1, 1)
            node.type, node.inputs = "Conv", [given, self._graph.constant(ones)]
        else:
            node.inputs[1] = self._graph.constant(paddings)

    def _copies(self, width: int) -> bool:
        return self._block <= width <= _WIDEST_COPY and width % GRAIN == 0


def _extended(values: Array, lengths: tuple[int, ...]) -> Array:
    """Add zeros at the ends of the first axes."""
    extended = np.zeros((*lengths, *values.shape[len(lengths) :]), values.dtype)
    extended[tuple(map(slice, values.shape))] = values
    return extended
