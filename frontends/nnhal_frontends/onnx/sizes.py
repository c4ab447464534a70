"""Resolve shapes that a model computes from other shapes with unknown dimensions.

Exporters write ``x.reshape(x.shape[0], -1)`` as Shape, Gather, Concat and Reshape. If the batch size is unknown, none
of them is constant. But an unknown dimension has a name, and the names that occur in both the input and the target of
Reshape cancel, so that only numbers are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, TensorInfo
from nnhal_frontends.onnx.inference_bounds import LONGEST_SIZES

_KEEP_SIZES = frozenset({"Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze"})
_OF_SHAPES = frozenset({"Shape", "Size"})

Size = int | str
"""A length, or the name of an unknown dimension."""


def resolve_reshapes(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with constant targets for each Reshape with at most one unknown dimension in its result.

    A target that comes from the values of inputs is kept: nothing is known of it before they are there, and then
    it may not fit.
    """
    known: dict[str, tuple[Size, ...]] = {}
    from_values = _from_values(graph)
    constants, tensors = dict(graph.constants), dict(graph.tensors)
    nodes = []
    current = replace(graph, tensors=tensors)  # it sees what is found
    for node in graph.nodes:
        values = _sizes_of(current, node, known)
        if values is not None and len(values) <= LONGEST_SIZES:
            known[node.outputs[0]] = values
        resolvable = node.op_type == "Reshape" and node.input(1) not in from_values
        result = _reshaped(current, node, known) if resolvable else None
        if result is not None:
            name = graph.fresh(f"{node.outputs[0]}/shape")
            constants[name] = np.array([-1 if isinstance(size, str) else size for size in result], np.int64)
            tensors[node.outputs[0]] = _info(graph, node, result)
            node = replace(node, inputs=(node.inputs[0], name), attributes={})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants, tensors=tensors)


def _from_values(graph: OnnxGraph) -> set[str]:
    """The tensors whose elements depend on those of inputs, and not on their shapes only."""
    found = {name for name in graph.inputs if name not in graph.constants}
    for node in graph.nodes:
        if node.op_type not in _OF_SHAPES and not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def _info(graph: OnnxGraph, node: OnnxNode, sizes: Sequence[Size]) -> TensorInfo:
    return TensorInfo(
        graph.tensors[node.outputs[0]].element_type,
        tuple(0 if isinstance(size, str) else size for size in sizes),
        tuple(size if isinstance(size, str) else "" for size in sizes),
    )


def _values(graph: OnnxGraph, name: str, known: Mapping[str, tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """Return the elements of a vector of sizes; None if they are unknown."""
    values = graph.constants.get(name)
    if values is not None and values.ndim <= 1 and values.size <= LONGEST_SIZES and values.dtype.kind == "i":
        return tuple(int(value) for value in values.reshape(-1))
    return known.get(name)


def _sizes_of(graph: OnnxGraph, node: OnnxNode, known: Mapping[str, tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """Return the elements of the result of a node that computes with sizes; None for other nodes."""
    if node.op_type == "Shape":
        sizes = graph.sizes(node.inputs[0])
        return (
            None if sizes is None else sizes[node.attributes.get("start", 0) : node.attributes.get("end", len(sizes))]
        )
    if node.op_type not in _KEEP_SIZES:
        return None
    parts = [_values(graph, name, known) for name in node.inputs if name]
    if node.op_type == "Concat":
        joined = [size for part in parts if part is not None for size in part]
        return None if None in parts else tuple(joined)
    if not parts or parts[0] is None or any(name not in graph.constants for name in node.inputs[1:] if name):
        return None
    if node.op_type == "Gather" and graph.constants[node.inputs[1]].size <= LONGEST_SIZES:
        return tuple(parts[0][int(index)] for index in graph.constants[node.inputs[1]].reshape(-1))
    if node.op_type == "Slice":
        return _sliced(graph, node, parts[0])
    return None if node.op_type == "Gather" else parts[0]


def _sliced(graph: OnnxGraph, node: OnnxNode, sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    def bound(index: int, attribute: str, default: int) -> int:
        if attribute in node.attributes:
            return int(node.attributes[attribute][0])
        return int(graph.constants[node.input(index)].item()) if node.input(index) else default

    return sizes[slice(bound(1, "starts", 0), bound(2, "ends", len(sizes)), bound(4, "steps", 1))]


def _reshaped(graph: OnnxGraph, node: OnnxNode, known: Mapping[str, tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """Return the sizes of Reshape's result; None if they cannot be found or more than one is unknown."""
    inferred = graph.sizes(node.outputs[0])
    if inferred is not None and sum(isinstance(size, str) for size in inferred) <= 1:
        return inferred
    given, target = graph.sizes(node.inputs[0]), _values(graph, node.inputs[1], known)
    if given is None or target is None:
        return None
    if not node.attributes.get("allowzero", 0):
        target = tuple(given[axis] if size == 0 else size for axis, size in enumerate(target))
    if 0 in target:
        return None
    # Unknown dimensions on both sides divide out.
    left = Counter(given) - Counter(size for size in target if isinstance(size, str))
    rest = list(left.elements())
    numbers = [size for size in rest if isinstance(size, int)]
    if -1 in target and len(numbers) == len(rest):
        filled = prod(numbers) // prod(size for size in target if isinstance(size, int) and size != -1)
        target = tuple(filled if size == -1 else size for size in target)
    target = tuple(f"{node.outputs[0]}/{axis}" if size == -1 else size for axis, size in enumerate(target))
    return target if sum(isinstance(size, str) for size in target) <= 1 else None
