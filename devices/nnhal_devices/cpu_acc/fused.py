"""Zeros around images, and activations, as parts of the convolutions and products of matrices beside them.

ONNX Runtime makes them such parts by itself. But after each change it infers the types of all tensors again, and looks
for more to change: it compiles a graph that leaves it nothing in some two thirds of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np

from nnhal_devices.cpu_acc.blocked.images import added_channels
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

_DOMAIN = "com.microsoft"
"""That of what ONNX Runtime has beyond ONNX's own operators."""
_CONV, _GEMM = "Conv", "Gemm"
_FUSED = {_CONV: "FusedConv", _GEMM: "FusedGemm"}
_ACTIVATIONS = {
    _CONV: frozenset({"HardSwish", "Relu", "Sigmoid", "Tanh"}),
    _GEMM: frozenset({"Relu", "Sigmoid", "Tanh"}),
}
"""Those without parameters."""
_FLOATS = np.finfo(np.float32)


def fuse_neighbours(graph: LoweredGraph) -> None:
    """Fuse each convolution and product of floats with an activation that alone reads it, and each convolution with a
    padding that it alone reads. The graph must be finished.
    """
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    uses.update(graph.outputs)
    makers = {node.outputs[0]: node for node in graph.nodes if uses[node.outputs[0]] == 1}
    kept: dict[str, LoweredNode] = {}
    for node in graph.nodes:
        maker = makers.get(node.inputs[0]) if node.inputs else None
        if maker is not None and _has_weights(graph, maker) and _take_activation(graph, maker, node):
            continue
        if maker is not None and node.type == _CONV and _has_weights(graph, node) and _take_padding(graph, node, maker):
            del kept[maker.outputs[0]]
        kept[node.outputs[0]] = node
    graph.nodes = list(kept.values())


def _has_weights(graph: LoweredGraph, node: LoweredNode) -> bool:
    """Return whether a node convolves or multiplies floats, which its weights tell."""
    weights = graph.constants.get(node.inputs[1]) if node.type in _FUSED else None
    return weights is not None and weights.dtype == np.float32


def _take_padding(graph: LoweredGraph, node: LoweredNode, padding: LoweredNode) -> bool:
    """Have a convolution do the padding of its images, if it can."""
    if added_channels(graph.constants, padding) != 0:
        return False
    added = graph.constants[padding.inputs[1]].reshape(2, -1)[:, 2:].reshape(-1)
    before = cast("int | Sequence[int]", node.attributes.get("pads", 0))
    node.attributes = {**node.attributes, "pads": np.add(before, added).tolist()}
    node.inputs[0] = padding.inputs[0]
    return True


def _take_activation(graph: LoweredGraph, node: LoweredNode, activation: LoweredNode) -> bool:
    """Have a node apply the activation of its results, if it can."""
    parameters = _parameters(graph, node.type, activation)
    if parameters is None:
        return False
    node.type, node.domain = _FUSED[node.type], _DOMAIN
    shown = {"activation_params": parameters} if parameters else {}
    node.attributes = {**node.attributes, "activation": activation.type, **shown}
    node.outputs = activation.outputs
    if activation.place != node.place:
        node.place = f"{node.place}, {activation.place}"
    return True


def _parameters(graph: LoweredGraph, kind: str, activation: LoweredNode) -> list[float] | None:
    """The parameters of an activation; None if nodes of a kind do not apply it."""
    if activation.type in _ACTIVATIONS[kind]:
        return []
    if kind != _CONV:
        return None
    alpha = activation.attributes.get("alpha")
    if activation.type == "LeakyRelu" and isinstance(alpha, float):
        return [alpha]
    return _bounds(graph, activation.inputs) if activation.type == "Clip" else None


def _bounds(graph: LoweredGraph, inputs: Sequence[str]) -> list[float] | None:
    """The bounds of a Clip; None if one is a variable."""
    found = [float(_FLOATS.min), float(_FLOATS.max)]
    for side, name in enumerate(inputs[1:]):
        bound = graph.constants.get(name)
        if bound is not None and bound.size == 1:
            found[side] = bound.item()
        elif name:
            return None
    return found
