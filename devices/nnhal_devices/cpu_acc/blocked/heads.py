"""Convolutions with few output channels and a large window.

In the blocked layout a convolution computes whole blocks of output channels, even if there is only one. It is cheaper
to compute the product of each weight and its pixel first, as the channels of a block, and to move and add them then: by
a convolution without a window, a depthwise one with a single 1 in each window, and again one without a window.
"""

from __future__ import annotations

import numpy as np

from nnhal_devices.cpu_acc.blocked.images import Images, filter_of
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

_WINDOW = ("strides", "pads", "dilations")
_ADVANTAGE = 2
"""How many times fewer products it must be: these convolutions use the processor less well."""


def split_heads(graph: LoweredGraph, block: int) -> None:
    """Replace such convolutions of images by three each."""
    gaining = [node for node in graph.nodes if _gains(graph, node, block)]
    images = Images(graph).channels if gaining else {}
    for node in gaining:
        if node.inputs[0] in images:
            at = graph.nodes.index(node)
            graph.nodes[at : at + 1] = _split(graph, node, block)


def _gains(graph: LoweredGraph, node: LoweredNode, block: int) -> bool:
    weights = filter_of(graph.constants, node)
    if weights is None or node.attributes.get("group", 1) != 1:
        return False
    made, given, height, width = weights.shape
    padded = _padded(made * height * width, block)
    whole = _padded(made, block) * given * height * width
    return bool(_ADVANTAGE * (padded * given + padded * height * width + block * padded) <= whole)


def _padded(channels: int, block: int) -> int:
    return -(-channels // block) * block


def _split(graph: LoweredGraph, node: LoweredNode, block: int) -> list[LoweredNode]:
    weights = graph.constants[node.inputs[1]]
    made, given, height, width = weights.shape
    terms = made * height * width
    padded = _padded(terms, block)
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
