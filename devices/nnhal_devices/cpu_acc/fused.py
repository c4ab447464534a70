"""Zeros around images, and activations, as parts of the convolutions beside them.

ONNX Runtime makes them such parts by itself. But after each change it infers the types of all tensors again, and looks
for more to change: it compiles a graph that leaves it nothing in some two thirds of the time.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from nnhal_devices.cpu_acc.blocked.images import added_channels
from nnhal_devices.cpu_acc.graph import MICROSOFT, Attribute, LoweredGraph, LoweredNode

_ACTIVATIONS = frozenset({"HardSwish", "Relu", "Sigmoid", "Tanh"})
"""Those without parameters."""


def fuse_convolutions(graph: LoweredGraph) -> None:
    """Fuse each convolution of floats with a padding that it alone reads, and with an activation that alone reads it.

    The graph must be finished.
    """
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    uses.update(graph.outputs)
    makers = {node.outputs[0]: node for node in graph.nodes if uses[node.outputs[0]] == 1}
    kept: dict[str, LoweredNode] = {}
    for node in graph.nodes:
        maker = makers.get(node.inputs[0]) if node.inputs else None
        if maker is not None and _is_convolution(graph, maker) and _take_activation(graph, maker, node):
            continue
        if maker is not None and _is_convolution(graph, node) and _take_padding(graph, node, maker):
            del kept[maker.outputs[0]]
        kept[node.outputs[0]] = node
    graph.nodes = list(kept.values())


def _is_convolution(graph: LoweredGraph, node: LoweredNode) -> bool:
    """Whether a node convolves floats, which its filter tells."""
    weights = graph.constants.get(node.inputs[1]) if node.type == "Conv" else None
    return weights is not None and weights.dtype == np.float32


def _take_padding(graph: LoweredGraph, node: LoweredNode, padding: LoweredNode) -> bool:
    """Have a convolution do the padding of its images, if it can."""
    if added_channels(graph.constants, padding) != 0:
        return False
    added = graph.constants[padding.inputs[1]].reshape(2, -1)[:, 2:].reshape(-1).tolist()
    own = node.attributes.get("pads", (0,) * len(added))
    node.attributes = {**node.attributes, "pads": [a + b for a, b in zip(own, added, strict=True)]}
    node.inputs[0] = padding.inputs[0]
    return True


def _take_activation(graph: LoweredGraph, node: LoweredNode, activation: LoweredNode) -> bool:
    """Have a convolution apply the activation of its results, if it can."""
    found = _activation(graph, activation)
    if not found:
        return False
    node.type, node.domain = "FusedConv", MICROSOFT
    node.attributes = {**node.attributes, **found}
    node.outputs = activation.outputs
    if activation.place != node.place:
        node.place = f"{node.place}, {activation.place}"
    return True


def _activation(graph: LoweredGraph, node: LoweredNode) -> dict[str, Attribute]:
    """The attributes that say what an activation does; none if it cannot be a part of a convolution."""
    if node.type in _ACTIVATIONS:
        return {"activation": node.type}
    if node.type == "LeakyRelu":
        return {"activation": node.type, "activation_params": [node.attributes["alpha"]]}
    bounds = [graph.constants.get(name) for name in node.inputs[1:]] if node.type == "Clip" else []
    if len(bounds) == 2 and all(bound is not None and bound.size == 1 for bound in bounds):
        return {"activation": node.type, "activation_params": [bound.item() for bound in bounds if bound is not None]}
    return {}
