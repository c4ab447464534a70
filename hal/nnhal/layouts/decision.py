"""The decision which value of a graph has which layout, and which transpositions that takes.

It does not depend on how the graph is represented. Nodes are seen in an order in which they can be computed, and each
says how it behaves: it has a layout of its own, follows the layout that arrives, or needs the model's. A value is
stored once, in the order in which its node computes it. Whoever needs it in another order reads a transposition of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, NamedTuple

from nnhal.layouts.layout_graph import Converts, Follows, Keeps, LayoutGraph, LayoutNode, Reorders, Value
from nnhal.types.orders import Order, after_transposition, axes_between, moves_elements, widened


class LayoutReading(NamedTuple, Generic[Value]):
    """Values that a node reads: a stored value, or a transposition of it."""

    value: Value
    """The one that is stored, which may be another than the node names if a transposition is between."""
    axes: Order | None = None
    """The axes of the stored value. If it has fewer axes, axes of length 1 are added in front first."""


@dataclass(frozen=True, slots=True)
class NodeLayouts(Generic[Value]):
    arrives: Order | None
    """The order that it follows; None for nodes of another behaviour."""
    converted: bool
    """True if it has other layouts than in the model: a node that converts, or follows an order."""
    reads: tuple[LayoutReading[Value], ...]
    stores: tuple[Order | None, ...]
    """The orders of the outputs."""


@dataclass(frozen=True, slots=True)
class LayoutDecision(Generic[Value]):
    """The layouts of a graph."""

    nodes: tuple[NodeLayouts[Value] | None, ...]
    """None for a transposition of the model."""
    model_order: Mapping[Value, LayoutReading[Value]]
    """How to read each value that a node computes in the model's own order."""


class _Standing(IntEnum):
    """Facts about a value's layout. The inputs of a graph have no known layout."""

    UNKNOWN = 0
    SINKING = 1
    """Unknown, but behind a transposition of the model that can move below the only node that reads it."""
    KNOWN = 2


class _Stored(NamedTuple, Generic[Value]):
    value: Value
    """The one whose memory it is."""
    order: Order | None
    standing: _Standing


def decide(graph: LayoutGraph[Value]) -> LayoutDecision[Value]:
    return _Deciding(graph).decided()


class _Deciding(Generic[Value]):
    def __init__(self, graph: LayoutGraph[Value]) -> None:
        self._graph = graph
        self._uses = Counter(graph.outputs)
        for node in graph.nodes:
            self._uses.update(node.inputs)
        self._stored: dict[Value, _Stored[Value]] = {}

    def decided(self) -> LayoutDecision[Value]:
        nodes = tuple(map(self._node, self._graph.nodes))
        return LayoutDecision(nodes, {value: self._reading(value, None) for value in self._stored})

    def _node(self, node: LayoutNode[Value]) -> NodeLayouts[Value] | None:
        match node.behaviour:
            case Reorders(axes):
                self._reorder(node, axes)
                return None
            case Converts(inputs, outputs):
                reads = [self._reading(value, inputs.get(i)) for i, value in enumerate(node.inputs)]
                stores = [outputs.get(i) for i in range(len(node.outputs))]
                return self._computed(node, None, True, reads, stores, _Standing.KNOWN)
            case Follows():
                return self._follow(node, node.behaviour)
            case Keeps(known, flat):
                return self._keep(node, _Standing.KNOWN if known else _Standing.UNKNOWN, flat)

    def _reorder(self, node: LayoutNode[Value], axes: Order) -> None:
        given, output = self._at(node.inputs[0]), node.outputs[0]
        order = after_transposition(given.order, axes)
        converted = given.standing == _Standing.KNOWN and given.order is not None
        known = converted or (given.standing == _Standing.KNOWN and order is None)
        loose = order is not None and self._uses[output] == 1
        standing = _Standing.KNOWN if known else _Standing.SINKING if loose else _Standing.UNKNOWN
        self._stored[output] = _Stored(given.value, order, standing)

    def _keep(self, node: LayoutNode[Value], standing: _Standing, flat: tuple[int, ...] = ()) -> NodeLayouts[Value]:
        reads = [self._flat(value) if i in flat else self._reading(value, None) for i, value in enumerate(node.inputs)]
        return self._computed(node, None, False, reads, [None] * len(node.outputs), standing)

    def _follow(self, node: LayoutNode[Value], behaviour: Follows) -> NodeLayouts[Value]:
        leading = behaviour.inputs if behaviour.leading is None else (behaviour.leading,)
        winner = self._winner([node.inputs[i] for i in leading])
        if winner is None:
            return self._keep(node, _Standing.UNKNOWN)
        if winner.order is None:
            return self._keep(node, winner.standing)
        stores = behaviour.carry(winner.order)
        if stores is None:
            return self._keep(node, _Standing.UNKNOWN)
        reads = [
            self._reading(value, winner.order if i in behaviour.inputs else None) for i, value in enumerate(node.inputs)
        ]
        return self._computed(node, winner.order, True, reads, stores, winner.standing)

    def _winner(self, values: Sequence[Value]) -> _Stored[Value] | None:
        """The stored value whose order a node follows, None if no layout is known."""
        shapes = [self._graph.shapes[value] for value in values]
        rank = max((len(shape) for shape in shapes if shape is not None), default=0)
        if None in shapes:
            return None
        full = [self._at(value) for value, shape in zip(values, shapes, strict=True) if len(shape or ()) == rank]
        known = next((stored for stored in full if stored.standing == _Standing.KNOWN), None)
        variable = [value for value in values if value not in self._graph.constants]
        if known is None and len(variable) == 1 and len(self._graph.shapes[variable[0]] or ()) == rank:
            alone = self._at(variable[0])
            return alone if alone.standing == _Standing.SINKING else None
        return known

    def _computed(
        self,
        node: LayoutNode[Value],
        arrives: Order | None,
        converted: bool,
        reads: Sequence[LayoutReading[Value]],
        stores: Sequence[Order | None],
        standing: _Standing,
    ) -> NodeLayouts[Value]:
        for value, order in zip(node.outputs, stores, strict=True):
            sinks = order is not None and self._uses[value] == 1
            own = _Standing.UNKNOWN if standing == _Standing.SINKING and not sinks else standing
            self._stored[value] = _Stored(value, order, own)
        return NodeLayouts(arrives, converted, tuple(reads), tuple(stores))

    def _at(self, value: Value) -> _Stored[Value]:
        return self._stored.get(value) or _Stored(value, None, _Standing.UNKNOWN)

    def _reading(self, value: Value, wanted: Order | None) -> LayoutReading[Value]:
        stored = self._at(value)
        shape = self._graph.shapes.get(value)
        if wanted is None or shape is None or len(shape) == len(wanted):
            return LayoutReading(stored.value, axes_between(stored.order, wanted))
        if all(length == 1 for length in shape):
            return LayoutReading(stored.value)
        return LayoutReading(stored.value, axes_between(widened(stored.order, len(shape), len(wanted)), wanted))

    def _flat(self, value: Value) -> LayoutReading[Value]:
        stored, shape = self._at(value), self._graph.shapes.get(value)
        if shape is not None and not moves_elements(stored.order, shape):
            return LayoutReading(stored.value)
        return self._reading(value, None)
