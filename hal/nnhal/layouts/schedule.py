"""The order of work in a graph whose layouts are decided: its nodes, and the transpositions between them.

A transposition stands before the first node that reads its result, once for each stored value and result. Some values
are fixed: others know them by name, so they must be there in the model's order. A transposition whose result is such a
value computes it; and what a transposition of the model computes keeps that name if somebody still needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias

from nnhal.layouts.decision import LayoutDecision, LayoutReading
from nnhal.layouts.layout_graph import LayoutGraph, Reorders, Value


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A node of the graph, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class TransposeStep(Generic[Value]):
    """A transposition of what is stored. One whose reading has no axes is a copy."""

    reading: LayoutReading[Value]
    result: Value | None
    """The value of the graph that it computes in the model's order; None if the graph has no such value."""
    origin: int | None
    """The transposition of the graph that does the same; None if it is added."""


LayoutStep: TypeAlias = NodeStep | TransposeStep[Value]


class _Result(NamedTuple, Generic[Value]):
    value: Value | None
    origin: int | None


@dataclass(frozen=True, slots=True)
class LayoutSchedule(Generic[Value]):
    """Steps in an order in which they can be done."""

    steps: tuple[LayoutStep[Value], ...]
    names: dict[Value, Value]
    """For each value that a node stores under the name of a value of the graph: which one. A stored value that is not
    here needs a new name, since its own stands for the model's order.
    """


def schedule(
    graph: LayoutGraph[Value],
    decision: LayoutDecision[Value],
    fixed: Collection[Value] = (),
    unchanged: Collection[int] = (),
) -> LayoutSchedule[Value]:
    """Put nodes and transpositions in order.

    ``fixed`` are values that nodes compute and others know by name. ``unchanged`` are the numbers of nodes that are
    among those others: they read fixed values by name, and have no other.
    """
    return _Scheduling(graph, decision, fixed, unchanged).scheduled()


class _Scheduling(Generic[Value]):
    def __init__(
        self,
        graph: LayoutGraph[Value],
        decision: LayoutDecision[Value],
        fixed: Collection[Value],
        unchanged: Collection[int],
    ) -> None:
        self._graph = graph
        self._decision = decision
        self._fixed = dict.fromkeys(value for node in graph.nodes for value in node.outputs if value in fixed)
        self._unchanged = unchanged
        self._origins = {
            node.outputs[0]: number for number, node in enumerate(graph.nodes) if isinstance(node.behaviour, Reorders)
        }
        self._names = self._stored_names()
        self._results = self._wanted_results()
        self._done: set[LayoutReading[Value]] = set()
        self._made: set[Value] = set(self._names.values())

    def scheduled(self) -> LayoutSchedule[Value]:
        return LayoutSchedule(tuple(self._steps()), self._names)

    def _stored_names(self) -> dict[Value, Value]:
        """Names for stored values. One that lies in memory as a fixed value should gets the name of that."""
        names: dict[Value, Value] = {}
        for node, layouts in zip(self._graph.nodes, self._decision.nodes, strict=True):
            if layouts is not None:
                pairs = zip(node.outputs, layouts.stores, strict=True)
                names.update((value, value) for value, order in pairs if order is None or value not in self._fixed)
        for value in self._fixed:
            stored, axes = self._decision.model_order[value]
            if axes is None and stored not in self._fixed and names.get(stored) == stored:
                names[stored] = value
        return names

    def _wanted_results(self) -> dict[LayoutReading[Value], _Result[Value]]:
        results: dict[LayoutReading[Value], _Result[Value]] = {}
        for value in (*self._fixed, *self._origins):
            reading = self._decision.model_order[value]
            if reading.axes is not None:
                results.setdefault(reading, _Result(value, self._origins.get(value)))
        return results

    def _steps(self) -> Iterator[LayoutStep[Value]]:
        for number, (node, layouts) in enumerate(zip(self._graph.nodes, self._decision.nodes, strict=True)):
            if layouts is None:
                continue
            if number in self._unchanged:
                for value in node.inputs:
                    yield from self._by_name(value)
            else:
                for reading in layouts.reads:
                    yield from self._transposed(reading)
            yield NodeStep(number)
        for value in self._graph.outputs:
            if value in self._fixed:
                yield from self._by_name(value)
            elif value in self._decision.model_order:
                yield from self._transposed(self._decision.model_order[value])

    def _transposed(self, reading: LayoutReading[Value]) -> Iterator[LayoutStep[Value]]:
        if reading.axes is None or reading in self._done or reading.value in self._graph.constants:
            return
        self._done.add(reading)
        result = self._results.get(reading, _Result(None, None))
        if result.value is not None:
            self._made.add(result.value)
        yield TransposeStep(reading, *result)

    def _by_name(self, value: Value) -> Iterator[LayoutStep[Value]]:
        if value not in self._fixed or value in self._made:
            return
        self._made.add(value)
        reading = self._decision.model_order[value]
        if self._results.get(reading, _Result(None, None)).value == value:
            self._done.add(reading)
        yield TransposeStep(reading, value, self._origins.get(value))
