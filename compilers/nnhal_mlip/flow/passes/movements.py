"""Two movements, one behind the other, as one."""

from __future__ import annotations

from dataclasses import replace

from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.layout_words import permutation
from nnhal_mlip.flow.graph.operators import Operator

_TRANSPOSITIONS = (Operator.TRANSPOSE, Operator.LAYOUT_TRANSFORM)


def transposed_axes(node: FlowNode) -> tuple[int, ...]:
    """Return the axes by which a transposition or a layout transform moves, counted from the front."""
    if node.operator == Operator.LAYOUT_TRANSFORM:
        return permutation(node.text("src_layout"), node.text("dst_layout"))
    axes = node.integers("axes")
    return tuple(axis % len(axes) for axis in axes)


def merged(first: FlowNode, second: FlowNode) -> FlowNode | None:
    """Return a node that does what two do, of which the second reads the first; None if there is none.

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
