"""Behaviour of each operator under layouts, and its attributes if its tensors lie in another order.

An operator that is not here needs the order that it has in the graph: reshapes, dense layers, softmax, and whatever
only the host has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nnhal.layouts.layout_graph import Behaviour, Follows, Keeps
from nnhal.types.orders import Order, permuted, without
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import TABLES, Operator

Attributes: TypeAlias = Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    """Behaviour of a node, and its attributes then."""

    behaviour: Behaviour
    rewrite: Callable[[Order | None], Attributes] = lambda _: {}
    """Returns the attributes that change: for the order that a node follows, or for None if it converts."""


def following(graph: FlowGraph, node: FlowNode, *, leftmost: bool = False) -> NodeBehaviour:
    """Return how a node behaves that has no layout of its own.

    With ``leftmost``, as in the public flow, of two operands the left one of those with most axes decides alone, unless
    it is a constant: if it has no known layout, as an input of the graph has none, the other one is brought back to the
    model's.
    """
    if node.operator not in _FOLLOWERS:
        return NodeBehaviour(Keeps())
    tensors = tuple(range(_FOLLOWERS[node.operator] or len(node.inputs)))
    rank = max(graph.values[node.inputs[index]].rank for index in tensors)
    for index in tensors:
        value = graph.values[node.inputs[index]]
        if value.rank < rank and 0 in value.shape and node.inputs[index] not in graph.constants:
            return NodeBehaviour(Keeps())
    deep = [index for index in tensors if graph.values[node.inputs[index]].rank == rank]
    leading = next((index for index in deep if node.inputs[index] not in graph.constants), deep[0])
    return NodeBehaviour(
        Follows(
            tensors,
            lambda order: (_stored(node, order),),
            leading if leftmost and node.operator in _OF_TWO else None,
        ),
        lambda order: _rewritten(node, order) if order is not None else {},
    )


def _stored(node: FlowNode, order: Order) -> Order | None:
    if node.operator == Operator.TRANSPOSE:
        return None
    if node.operator == Operator.SQUEEZE or (node.operator == Operator.MEAN and not node.integer("keepdims")):
        return without(order, {axis % len(order) for axis in node.integers("axis")})
    return order


def _rewritten(node: FlowNode, order: Order) -> Attributes:
    rank = len(order)
    match node.operator:
        case Operator.UPSAMPLING:
            return {"layout": "".join(node.text("layout")[axis] for axis in order)}
        case Operator.BATCH_NORM | Operator.CONCATENATE | Operator.STRIDED_SLICE:
            return {"axis": order.index(node.integer("axis") % rank)}
        case Operator.MEAN | Operator.SQUEEZE:
            return {"axis": tuple(sorted(order.index(axis % rank) for axis in node.integers("axis")))}
        case Operator.TRANSPOSE:
            return {"axes": tuple(order.index(axis % rank) for axis in node.integers("axes"))}
        case Operator.PAD:
            widths = node.integers("pad_width")
            pairs = permuted(list(zip(widths[::2], widths[1::2], strict=True)), order)
            return {"pad_width": tuple(width for pair in pairs for width in pair)}
    return {}


_OF_TWO = (Operator.ADD, Operator.DIVIDE, Operator.MULTIPLY, Operator.SUBTRACT)

_FOLLOWERS: Mapping[str, int] = {
    Operator.ADD: 2,
    Operator.BATCH_NORM: 1,
    Operator.CLIP: 1,
    Operator.CONCATENATE: 0,
    Operator.COPY: 1,
    Operator.DIVIDE: 2,
    Operator.DROPOUT: 1,
    Operator.MEAN: 1,
    Operator.MULTIPLY: 2,
    Operator.PAD: 1,
    Operator.PRELU: 2,
    Operator.RELU: 1,
    Operator.SQUEEZE: 1,
    Operator.STRIDED_SLICE: 1,
    Operator.SUBTRACT: 2,
    Operator.TRANSPOSE: 1,
    Operator.UPSAMPLING: 1,
    **dict.fromkeys(TABLES, 1),
}
"""How many inputs have the layout; they come first. 0 for all."""
