"""Nodes that can be computed before the graph runs, nodes that give back their input, and movements that merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator, permutation
from nnhal_mlip.flow.graph.reference import compute

_TRANSPOSITIONS = (Operator.TRANSPOSE, Operator.LAYOUT_TRANSFORM)


def transposed_axes(node: FlowNode) -> tuple[int, ...]:
    """Return the axes by which a transposition or a layout transform moves, counted from the front."""
    if node.operator == Operator.LAYOUT_TRANSFORM:
        return permutation(node.text("src_layout"), node.text("dst_layout"))
    axes = node.integers("axes")
    return tuple(axis % len(axes) for axis in axes)


def merged(first: FlowNode, second: FlowNode) -> FlowNode | None:
    """Return a node that does what ``first`` does and then ``second``, which reads it; None if there is none.

    The node has the second's output and sources.
    """
    if first.operator == second.operator == Operator.RESHAPE:
        return replace(second, inputs=first.inputs)
    if first.operator not in _TRANSPOSITIONS or second.operator not in _TRANSPOSITIONS:
        return None
    if first.operator == second.operator == Operator.LAYOUT_TRANSFORM:
        source, between, target = first.text("src_layout"), first.text("dst_layout"), second.text("dst_layout")
        if between == second.text("src_layout"):
            return replace(second, inputs=first.inputs, attributes={"src_layout": source, "dst_layout": target})
    inner = transposed_axes(first)
    axes = tuple(inner[axis] for axis in transposed_axes(second))
    return replace(second, operator=Operator.TRANSPOSE, inputs=first.inputs, attributes={"axes": axes})


_MOVES = frozenset(
    {
        Operator.BATCH_FLATTEN,
        Operator.COPY,
        Operator.DROPOUT,
        Operator.LAYOUT_TRANSFORM,
        Operator.RESHAPE,
        Operator.SQUEEZE,
        Operator.TRANSPOSE,
    }
)
"""Operators that move elements of any type, and do not compute with them."""

_NEUTRAL: Mapping[str, tuple[float, tuple[int, ...]]] = {
    Operator.ADD: (0.0, (1, 0)),
    Operator.DIVIDE: (1.0, (1,)),
    Operator.MULTIPLY: (1.0, (1, 0)),
    Operator.SUBTRACT: (0.0, (1,)),
}
"""The constant that changes nothing, and the inputs that it may be."""


def folded(graph: FlowGraph, node: FlowNode, constants: Mapping[str, Array]) -> Array | None:
    """Return a node's result if it is constant; None if it is not, or would be computed from integers."""
    if node.evaluate is not None or any(name not in constants for name in node.inputs):
        return None
    arrays = [constants[name] for name in node.inputs]
    if node.operator in _MOVES and graph.values[node.output].element_type == arrays[0].dtype:
        return compute(graph, node, arrays)[0]
    types = {graph.values[name].element_type for name in (*node.inputs, node.output)}
    if not types <= {np.dtype(np.float32), np.dtype(np.float16)}:
        return None
    result = compute(graph, node, [array.astype(np.float32, copy=False) for array in arrays])[0]
    with np.errstate(over="ignore"):
        return result.astype(graph.values[node.output].element_type, copy=False)


def passed_through(graph: FlowGraph, node: FlowNode, constants: Mapping[str, Array]) -> str | None:
    """Return the input that is the same as a node's result; None if no input is."""
    index = _idle_input(node, constants)
    if index is None or not _same(graph.values[node.inputs[index]], graph.values[node.output]):
        return None
    return node.inputs[index]


def _idle_input(node: FlowNode, constants: Mapping[str, Array]) -> int | None:
    match node.operator:
        case Operator.COPY | Operator.DROPOUT:
            return 0
        case Operator.TRANSPOSE | Operator.LAYOUT_TRANSFORM:
            axes = transposed_axes(node)
            return 0 if axes == tuple(range(len(axes))) else None
    neutral, places = _NEUTRAL.get(node.operator, (0.0, ()))
    for place in places:
        constant = constants.get(node.inputs[place])
        if constant is not None and constant.dtype.kind == "f" and np.all(constant == neutral):
            return 1 - place
    return None


def _same(one: FlowValue, other: FlowValue) -> bool:
    return one == other or (not one.scales and not other.scales and one[:2] == other[:2])
