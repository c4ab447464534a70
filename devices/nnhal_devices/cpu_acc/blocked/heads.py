"""Convolutions with few output channels and a large window.

In the blocked layout a convolution computes whole blocks of output channels, even if there is only one. It is cheaper
to compute the product of each weight and its pixel first, as the channels of a block, and to move and add them then: by
a convolution without a window, a depthwise one with a single 1 in each window, and again one without a window.
"""

from __future__ import annotations

import numpy as np

from nnhal_devices.cpu_acc.blocked.images import Images
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

_WINDOW = ("strides", "pads", "dilations")
_ADVANTAGE = 2
"""How many times fewer products it must be: these convolutions use the processor less well."""


def split_heads(graph: LoweredGraph, block: int) -> None:
    """Replace such convolutions of images by three each."""
    images = Images(graph)
    nodes: list[LoweredNode] = []
    for node in graph.nodes:
        nodes += _split(graph, images, node, block) if node.inputs and node.inputs[0] in images.channels else [node]
    graph.nodes = nodes


def _split(graph: LoweredGraph, images: Images, node: LoweredNode, block: int) -> list[LoweredNode]:
    weights = images.weights(node)
    if weights is None or not images.is_dense(node):
        return [node]
    made, given, height, width = weights.shape
    terms = made * height * width
    padded = -(-terms // block) * block
    whole = -(-made // block) * block * given * height * width
    if _ADVANTAGE * (padded * given + padded * height * width + block * padded) > whole:
        return [node]
    products = np.zeros((padded, given, 1, 1), np.float32)
    products[:terms, :, 0, 0] = weights.transpose(0, 2, 3, 1).reshape(terms, given)
    moves = np.zeros((padded, 1, height, width), np.float32)
    moves[:terms, 0] = np.tile(np.eye(height * width), (made, 1)).reshape(terms, height, width)
    sums = np.zeros((made, padded, 1, 1), np.float32)
    sums[:, :terms, 0, 0] = np.repeat(np.eye(made), height * width, axis=1)
    window = {key: node.attributes[key] for key in _WINDOW if key in node.attributes}
    first, second = graph.name(), graph.name()
    return [
        LoweredNode("Conv", [node.inputs[0], graph.constant(products)], [first], {}, node.place),
        LoweredNode("Conv", [first, graph.constant(moves)], [second], {**window, "group": padded}, node.place),
        LoweredNode("Conv", [second, graph.constant(sums), *node.inputs[2:]], node.outputs, {}, node.place),
    ]
