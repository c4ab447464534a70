"""Activations in the blocked layout.

ONNX Runtime runs some activations there only as a part of a convolution. It makes them such a part if they alone read
what a convolution computes. Here the others get a convolution: one with a single 1 for each channel, which costs about
as much as the activation does by itself.
"""

from __future__ import annotations

import numpy as np

from nnhal_devices.cpu_acc.blocked.images import Images
from nnhal_devices.cpu_acc.graph import LoweredGraph, LoweredNode

_FUSED = frozenset({"Clip", "HardSigmoid", "HardSwish", "LeakyRelu"})
"""What ONNX Runtime makes a part of a convolution, and does not run in the blocked layout otherwise."""
_REWRITTEN = _FUSED | {"Max", "Min", "PRelu"}


def carry_activations(graph: LoweredGraph, block: int) -> None:
    """Rewrite the activations of images whose channels fill whole blocks."""
    if not any(node.type in _REWRITTEN for node in graph.nodes):
        return
    images = Images(graph, with_any_value=True)
    nodes: list[LoweredNode] = []
    for node in graph.nodes:
        given = node.inputs[0] if node.inputs else ""
        channels = images.channels.get(given, 0)
        if not channels or channels % block or node.outputs[0] not in images.channels:
            nodes.append(node)
            continue
        if node.type in ("Max", "Min"):
            node.inputs = [given, node.inputs[1]] if node.type == "Max" else [given, "", node.inputs[1]]
            node.inputs = [_scalar(graph, name) if name in graph.constants else name for name in node.inputs]
            node.type = "Clip"
        if node.type == "PRelu":
            nodes += _slopes(graph, node, channels)
            continue
        if node.type in _FUSED and not _is_read_alone(graph, images, given):
            carrier = _carrier(graph, node, given, np.ones(channels))
            node.inputs[0] = carrier.outputs[0]
            nodes.append(carrier)
        nodes.append(node)
    graph.nodes = nodes


def multiply_slopes(graph: LoweredGraph) -> None:
    """Have a PRelu outside of the blocked layout choose between its input and the product with the slopes.

    ONNX Runtime's own kernel asks of each element for itself. Results are the same, also of infinities: there a slope
    of 0, which makes no number of them, is left to that kernel, unless the input has bytes.
    """
    bytes_read = {node.outputs[0] for node in graph.nodes if node.type == "DequantizeLinear"}
    nodes: list[LoweredNode] = []
    for node in graph.nodes:
        slopes = graph.constants.get(node.inputs[1]) if node.type == "PRelu" else None
        choice = None if slopes is None else _choice(slopes, node.inputs[0] in bytes_read)
        if choice is not None:
            given, product = node.inputs[0], graph.name()
            nodes.append(LoweredNode("Mul", list(node.inputs), [product], {}, node.place))
            node.type, node.inputs = choice, [given, product]
        nodes.append(node)
    graph.nodes = nodes


def _choice(slopes: np.ndarray, is_finite: bool) -> str | None:
    """Return which of an element and its product is the result for all these slopes, if it is the same for all."""
    if (slopes <= 1).all() and (slopes >= 0).all() and (is_finite or slopes.all()):
        return "Max"
    return "Min" if np.isfinite(slopes).all() and (slopes >= 1).all() else None


def _is_read_alone(graph: LoweredGraph, images: Images, name: str) -> bool:
    convolved = images.weights(images.makers[name]) is not None
    return convolved and len(images.readers[name]) == 1 and name not in graph.outputs


def _slopes(graph: LoweredGraph, node: LoweredNode, channels: int) -> list[LoweredNode]:
    """x + (1 - slope) * max(-x, 0), which ONNX Runtime turns into two convolutions: the sum is a part of the second."""
    given, slopes = node.inputs[0], graph.constants[node.inputs[1]]
    negated = _carrier(graph, node, given, np.full(channels, -1.0))
    positive = LoweredNode("Relu", list(negated.outputs), [graph.name()], {}, node.place)
    scaled = _carrier(graph, node, positive.outputs[0], np.broadcast_to(1.0 - slopes.reshape(-1), (channels,)))
    added = LoweredNode("Add", [given, scaled.outputs[0]], node.outputs, {}, node.place)
    return [negated, positive, scaled, added]


def _carrier(graph: LoweredGraph, node: LoweredNode, given: str, factors: np.ndarray) -> LoweredNode:
    """A convolution that multiplies each channel by a factor."""
    channels = len(factors)
    weights = graph.constant(factors.astype(np.float32).reshape(channels, 1, 1, 1))
    return LoweredNode("Conv", [given, weights], [graph.name()], {"group": channels}, node.place)


def _scalar(graph: LoweredGraph, name: str) -> str:
    return graph.constant(graph.constants[name].reshape(()))
