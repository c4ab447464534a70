"""Writing a graph whose layouts are decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.decision import LayoutDecision, LayoutReading, NodeLayouts, decide
from nnhal.layouts.layout_graph import LayoutGraph, LayoutNode
from nnhal.layouts.schedule import LayoutSchedule, NodeStep, TransposeStep, schedule
from nnhal.types.orders import TO_FIRST, TO_LAST, Order, permuted
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.passes.layout_behaviours import NodeBehaviour
from nnhal_mlip.flow.passes.layout_conversion import SOURCE_KERNEL_LAYOUT, SOURCE_LAYOUT, kernel_layouts

_IMAGES = {TO_LAST: ("NCHW", "NHWC"), TO_FIRST: ("NHWC", "NCHW")}


def relayout(graph: FlowGraph, behaviours: Sequence[NodeBehaviour], unchanged: Collection[int] = ()) -> FlowGraph:
    """Return a graph in which each node behaves as it is said to.

    ``unchanged`` are the numbers of nodes that stay exactly as they are, with the names and types of all that they read
    and compute.
    """
    nodes = [
        LayoutNode(node.inputs, node.outputs, each.behaviour)
        for node, each in zip(graph.nodes, behaviours, strict=True)
    ]
    shapes = {name: value.shape for name, value in graph.values.items()}
    seen = LayoutGraph(nodes, tuple(graph.outputs.values()), shapes, graph.constants.keys())
    decision = decide(seen)
    fixed = {name for number in unchanged for name in (*graph.nodes[number].inputs, *graph.nodes[number].outputs)}
    return _Writing(graph, behaviours, decision, schedule(seen, decision, fixed, unchanged), unchanged).written()


class _Writing:
    def __init__(
        self,
        graph: FlowGraph,
        behaviours: Sequence[NodeBehaviour],
        decision: LayoutDecision[str],
        plan: LayoutSchedule[str],
        unchanged: Collection[int],
    ) -> None:
        self._graph = graph
        self._behaviours = behaviours
        self._decision = decision
        self._plan = plan
        self._unchanged = unchanged
        self._kernels = kernel_layouts(graph)
        self._nodes: list[FlowNode] = []
        self._values: dict[str, FlowValue] = {name: graph.values[name] for name in graph.inputs}
        self._constants: dict[str, Array] = {}
        self._stored: dict[str, str] = {}
        self._transposed: dict[LayoutReading[str], str] = {}
        self._taken = set(graph.values)

    def written(self) -> FlowGraph:
        for step in self._plan.steps:
            match step:
                case NodeStep(number):
                    self._node(number)
                case TransposeStep(reading, result, origin):
                    self._transpose(reading, result, origin)
        outputs = {user: self._read(self._model_order(name)) for user, name in self._graph.outputs.items()}
        return FlowGraph(tuple(self._nodes), self._graph.inputs, outputs, self._values, self._constants)

    def _model_order(self, name: str) -> LayoutReading[str]:
        return self._decision.model_order.get(name, LayoutReading(name))

    def _node(self, number: int) -> None:
        node, layouts = self._graph.nodes[number], self._decision.nodes[number]
        if layouts is None:
            raise TypeError(f"{node.name}: a transposition that is no step of its own")
        if number in self._unchanged:
            for name in node.inputs:
                self._place(name)
            self._values.update((name, self._graph.values[name]) for name in node.outputs)
            self._nodes.append(node)
            return
        inputs = tuple(self._read(reading) for reading in layouts.reads)
        outputs = []
        for name, order in zip(node.outputs, layouts.stores, strict=True):
            outputs.append(self._plan.names.get(name) or self._new(name, order))
            self._stored[name] = outputs[-1]
            self._values[outputs[-1]] = _moved(self._graph.values[name], order)
        self._nodes.append(
            replace(node, inputs=inputs, outputs=tuple(outputs), attributes=self._attributes(number, layouts))
        )

    def _attributes(self, number: int, layouts: NodeLayouts[str]) -> Mapping[str, Attribute]:
        own = self._graph.nodes[number].attributes
        if not layouts.converted:
            return own
        kept = {name: each for name, each in own.items() if name not in (SOURCE_LAYOUT, SOURCE_KERNEL_LAYOUT)}
        return {**kept, **self._behaviours[number].rewrite(layouts.arrives)}

    def _transpose(self, reading: LayoutReading[str], result: str | None, origin: int | None) -> None:
        given = self._place(reading.value)
        rank = self._values[given].rank
        if reading.axes is not None and len(reading.axes) > rank:
            given = self._widened(given, len(reading.axes))
        made = result or self._new(reading.value, reading.axes)
        self._values[made] = _moved(self._values[given], reading.axes)
        sources = self._graph.nodes[origin].sources if origin is not None else ()
        operator, attributes = self._movement(reading)
        self._nodes.append(FlowNode(operator, (given,), (made,), attributes, sources))
        self._transposed.setdefault(reading, made)
        if result is not None:
            self._stored.setdefault(result, made)

    def _movement(self, reading: LayoutReading[str]) -> tuple[str, Mapping[str, Attribute]]:
        """The operator that makes a transposition, in words of layouts if it moves images or weights."""
        if reading.axes is None:
            return Operator.COPY, {}
        layout = self._kernels.get(reading.value)
        words = (layout, "".join(permuted(layout, reading.axes))) if layout else _IMAGES.get(reading.axes)
        if words is None:
            return Operator.TRANSPOSE, {"axes": reading.axes}
        return Operator.LAYOUT_TRANSFORM, {"src_layout": words[0], "dst_layout": words[1]}

    def _widened(self, given: str, rank: int) -> str:
        value = self._values[given]
        made = self._new(given, None)
        self._values[made] = _wide(value, rank)
        shape = self._values[made].shape
        self._nodes.append(FlowNode(Operator.RESHAPE, (given,), (made,), {"newshape": shape}))
        return made

    def _read(self, reading: LayoutReading[str]) -> str:
        if reading.axes is None:
            return self._place(reading.value)
        if reading not in self._transposed:
            self._transposed[reading] = self._folded(reading.value, reading.axes)
        return self._transposed[reading]

    def _place(self, name: str) -> str:
        """The value that holds what the graph stores as another; a constant is added when it is first read."""
        if name in self._graph.constants:
            self._constants[name] = self._graph.constants[name]
            self._values[name] = self._graph.values[name]
        return self._stored.get(name, name)

    def _folded(self, name: str, axes: Order) -> str:
        array, value = self._graph.constants[name], self._graph.values[name]
        wide = _wide(value, len(axes))
        made = self._new(name, axes)
        self._constants[made] = np.ascontiguousarray(array.reshape(wide.shape).transpose(axes))
        self._values[made] = _moved(wide, axes)
        return made

    def _new(self, name: str, axes: Order | None) -> str:
        """A name for another form of a value: with its layout behind it, or a number."""
        words = _IMAGES.get(axes) if axes and name not in self._kernels else None
        base = f"{name}_{words[1]}" if words else name
        unique, number = base, 1
        while unique in self._taken:
            unique, number = f"{base}_{number}", number + 1
        self._taken.add(unique)
        return unique


def _wide(value: FlowValue, rank: int) -> FlowValue:
    """A value with axes of length 1 in front."""
    added = rank - value.rank
    axis = value.axis + added if len(value.scales) > 1 else 0
    return value._replace(shape=(1,) * added + value.shape, axis=axis)


def _moved(value: FlowValue, order: Order | None) -> FlowValue:
    if order is None:
        return value
    axis = order.index(value.axis) if len(value.scales) > 1 else 0
    return value._replace(shape=permuted(value.shape, order), axis=axis)
