"""Merge neighbouring nodes that are one operation of the NN HAL.

Each rule takes a node and the only reader of its result, and returns the node that stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.types import FusedActivation
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode

_TAKE_ACTIVATION = frozenset(
    {
        "Add",
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "Div",
        "Gemm",
        "MatMul",
        "MaxPool",
        "Mul",
        "Sub",
        "Sum",
    }
)
_SHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
_MAX_RANK = 4
_MOST_MERGED = 8
"""Nodes that one Conv stands for: each further one would compute all of its weights again."""
_RANGES = {
    (0.0, np.inf): FusedActivation.RELU,
    (-1.0, 1.0): FusedActivation.RELU1,
    (0.0, 6.0): FusedActivation.RELU6,
}


@dataclass(frozen=True, slots=True)
class MergedNode:
    """A node that stands for two, and the constants that it needs."""

    node: OnnxNode
    constants: Mapping[str, Array] = field(default_factory=dict)


FusionRule = Callable[[OnnxGraph, OnnxNode, OnnxNode], MergedNode | None]


def fuse(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with all rules applied."""
    for rule in (
        fuse_shape_before,
        fuse_shape_after,
        fuse_padding,
        fuse_normalization,
        _bias_rule(graph),
        fuse_activation,
    ):
        graph = _apply(graph, rule)
    return graph


def fuse_shapes(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with those rules applied that join nodes which only move values.

    They apply to more nodes when no quantisation is between these any more.
    """
    return _apply(_apply(graph, fuse_shape_before), fuse_shape_after)


def _apply(graph: OnnxGraph, rule: FusionRule) -> OnnxGraph:
    uses = graph.uses()
    producers: dict[str, OnnxNode] = {}
    nodes: dict[str, OnnxNode] = {}
    constants = dict(graph.constants)
    made: set[str] = set()
    graph = replace(graph, constants=constants)
    for node in graph.nodes:
        for name in node.inputs:
            first = producers.get(name)
            merged = rule(graph, first, node) if first is not None and uses[name] == 1 else None
            if first is not None and merged is not None:
                names = tuple(dict.fromkeys(first.stands_for + node.stands_for))
                node = replace(merged.node, outputs=node.outputs, stands_for=names)
                for replaced in made.intersection(first.inputs).difference(node.inputs):
                    del constants[replaced]  # made for a merge that this one continues
                    made.discard(replaced)
                constants.update(merged.constants)
                made.update(merged.constants)
                del nodes[first.outputs[0]]
                break
        for name in node.outputs:
            producers[name] = node
        nodes[node.outputs[0]] = node
    return replace(graph, nodes=tuple(nodes.values()))


def fuse_shape_before(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
    """Merge a reshape to more axes than the HAL has, then Transpose, into a Transpose over fewer axes.

    Its attribute ``via`` is the shape to which its input is reshaped first.
    """
    shape = graph.shape(first.outputs[0])
    if first.op_type not in _SHAPES or second.op_type != "Transpose" or shape is None or len(shape) <= _MAX_RANK:
        return None
    via, perm = _with_joined_axes(shape, second.attributes.get("perm", range(len(shape))[::-1]))
    if len(via) > _MAX_RANK or via.count(0) > 1:
        return None
    return MergedNode(replace(second, inputs=first.inputs[:1], attributes={"perm": perm, "via": via}))


def fuse_shape_after(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
    """Merge a Transpose over fewer axes, then a reshape, into a Transpose that gives the final shape."""
    del graph
    return MergedNode(first) if "via" in first.attributes and second.op_type in _SHAPES else None


def _with_joined_axes(shape: Dimensions, perm: Sequence[int]) -> tuple[Dimensions, list[int]]:
    """Return a shape and an order of its axes without axes of length 1, and with axes joined that stay neighbours."""
    kept = [axis for axis in perm if shape[axis] != 1] or [0]
    places = {axis: place for place, axis in enumerate(sorted(kept))}
    groups: list[list[int]] = []
    for axis in kept:
        if groups and places[axis] == places[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ordered = sorted(groups)
    lengths = tuple(prod(shape[axis] for axis in group) for group in ordered)
    return lengths, [ordered.index(group) for group in groups]


def fuse_padding(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
    """Merge Pad with zeros along image axes, then Conv, into a Conv with larger paddings."""
    if first.op_type != "Pad" or second.op_type != "Conv" or second.inputs[0] != first.outputs[0]:
        return None
    pads = paddings_of(graph, first)
    rank = len(graph.shape(first.inputs[0]) or ())
    automatic = second.attributes.get("auto_pad", "NOTSET")
    if pads is None or rank < 3 or len(pads) != rank or automatic not in ("NOTSET", "VALID"):
        return None
    if first.attributes.get("mode", "constant") != "constant" or padding_value(graph, first) != 0:
        return None
    if pads[0] != (0, 0) or pads[1] != (0, 0) or min(min(pair) for pair in pads) < 0:
        return None
    own = second.attributes.get("pads", [0] * (2 * rank - 4)) if automatic == "NOTSET" else [0] * (2 * rank - 4)
    added = [before for before, _ in pads[2:]] + [after for _, after in pads[2:]]
    attributes = {
        **second.attributes,
        "auto_pad": "NOTSET",
        "pads": [int(a + b) for a, b in zip(own, added, strict=True)],
    }
    return MergedNode(replace(second, inputs=(first.inputs[0], *second.inputs[1:]), attributes=attributes))


def fuse_normalization(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
    """Merge Conv, then a factor or an addend for each channel or both, into a Conv with other weights."""
    if first.op_type != "Conv" or first.activation or len(first.stands_for) > _MOST_MERGED:
        return None
    weights = graph.constants.get(first.inputs[1])
    bias = graph.constants.get(first.input(2)) if first.input(2) else np.zeros((), np.float32)
    if weights is None or bias is None:
        return None
    factors = _factors_after(graph, first, second, weights.shape)
    if factors is None:
        return None
    scale, shift = factors
    names = graph.fresh(f"{first.inputs[1]}/{second.name}"), graph.fresh(f"{first.name}/{second.name}/bias")
    values = (
        (weights * scale.reshape(-1, *[1] * (weights.ndim - 1))).astype(weights.dtype),
        (bias * scale + shift).astype(weights.dtype),
    )
    return MergedNode(replace(first, inputs=(first.inputs[0], *names)), dict(zip(names, values, strict=True)))


def _factors_after(
    graph: OnnxGraph, first: OnnxNode, second: OnnxNode, weights: Dimensions
) -> tuple[Array, Array] | None:
    """Return scale and shift of a node that computes ``x * scale + shift`` for each channel; None for other nodes."""
    if second.op_type == "BatchNormalization":
        return normalization_of(graph, second) if second.inputs[0] == first.outputs[0] else None
    others = [graph.constants.get(name) for name in second.inputs if name != first.outputs[0]]
    if second.op_type not in ("Add", "Mul") or len(others) != 1 or others[0] is None:
        return None
    shape = (1,) * (len(weights) - others[0].ndim) + others[0].shape
    if shape not in {(1, channels, *[1] * (len(weights) - 2)) for channels in (1, weights[0])}:
        return None
    values = np.broadcast_to(others[0].reshape(-1).astype(np.float64), weights[:1])
    ones, zeros = np.ones(weights[0]), np.zeros(weights[0])
    return (ones, values) if second.op_type == "Add" else (values, zeros)


def _bias_rule(graph: OnnxGraph) -> FusionRule:
    """Return the rule that merges MatMul by constant weights [in, out], then Add of a constant [out].

    They become a MatMul with a third input. Both constants may be quantised.
    """
    integers = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.op_type == "DequantizeLinear"}

    def constant_shape(graph: OnnxGraph, name: str) -> Dimensions | None:
        values = graph.constants.get(name)
        values = graph.constants.get(integers.get(name, "")) if values is None else values
        return None if values is None else values.shape

    def fuse_bias(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
        if first.op_type != "MatMul" or len(first.inputs) != 2 or second.op_type != "Add":
            return None
        (other,) = [name for name in second.inputs if name != first.outputs[0]] or [""]
        weights, bias = constant_shape(graph, first.inputs[1]), constant_shape(graph, other)
        if weights is None or bias is None or len(weights) != 2 or bias != weights[1:]:
            return None
        return MergedNode(replace(first, inputs=(*first.inputs, other)))

    return fuse_bias


def fuse_activation(graph: OnnxGraph, first: OnnxNode, second: OnnxNode) -> MergedNode | None:
    """Merge an operation that takes an activation, then Relu or a Clip to the range of one, into the operation."""
    if first.op_type not in _TAKE_ACTIVATION or first.activation or len(first.outputs) > 1:
        return None
    if second.op_type not in ("Clip", "Relu") or second.inputs[0] != first.outputs[0]:
        return None
    info = graph.tensors.get(first.outputs[0])
    if info is None or info.element_type.kind != "f":
        return None
    activation = activation_of(graph, second)
    return None if activation is None else MergedNode(replace(first, activation=activation))


def activation_of(graph: OnnxGraph, node: OnnxNode) -> FusedActivation | None:
    """Return Relu or Clip as a fused activation; None if there is no such activation."""
    if node.op_type == "Relu":
        return FusedActivation.RELU
    bounds = clip_bounds(graph, node)
    return None if bounds is None else _RANGES.get(bounds)


def clip_bounds(graph: OnnxGraph, node: OnnxNode) -> tuple[float, float] | None:
    """Return the bounds of Clip, infinite for a missing one; None if they are not constant."""
    bounds = []
    for index, (attribute, default) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
        name = node.input(index)
        if name and name not in graph.constants:
            return None
        value = float(graph.constants[name].item()) if name else float(node.attributes.get(attribute, default))
        bounds.append(default if abs(value) >= float(np.finfo(np.float32).max) else value)
    return bounds[0], bounds[1]


def normalization_of(graph: OnnxGraph, node: OnnxNode) -> tuple[Array, Array] | None:
    """Return BatchNormalization as ``x * scale + shift`` for each channel; None if its parameters are not constant."""
    if any(name not in graph.constants for name in node.inputs[1:5]) or node.attributes.get("training_mode", 0):
        return None
    scale, bias, mean, variance = (graph.constants[name].astype(np.float64) for name in node.inputs[1:5])
    factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
    return factor, bias - mean * factor


def paddings_of(graph: OnnxGraph, node: OnnxNode) -> list[tuple[int, int]] | None:
    """Return the elements that Pad adds before and after each axis; None if they are not constant."""
    rank = len(graph.shape(node.inputs[0]) or ())
    flat = node.attributes.get("pads")
    if flat is None:
        flat = graph.constants.get(node.input(1))
    if flat is None or (node.input(3) and node.input(3) not in graph.constants):
        return None
    axes = graph.constants[node.input(3)] if node.input(3) else range(rank)
    half = len(flat) // 2
    pads = [(0, 0)] * rank
    for axis, before, after in zip(axes, flat[:half], flat[half:], strict=True):
        pads[int(axis)] = (int(before), int(after))
    return pads


def padding_value(graph: OnnxGraph, node: OnnxNode) -> float | None:
    """Return the value that Pad fills with; None if it is not constant."""
    if not node.input(2):
        return float(node.attributes.get("value", 0.0))
    value = graph.constants.get(node.input(2))
    return None if value is None else float(value.item())
