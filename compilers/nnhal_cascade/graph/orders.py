"""Orders in which the parts of a graph can run.

A cascade is of consecutive parts, and a tensor lives until its last reader: so which branch of a network runs when
decides what can be cascaded, and how much memory lives meanwhile. The least memory over all orders is a hard problem;
these two are planned, with all their cascades and buffers, and the better schedule is taken.
"""

from __future__ import annotations

from dataclasses import replace

from nnhal_cascade.graph.cascader_graph import CascaderGraph


def orders(graph: CascaderGraph) -> tuple[CascaderGraph, ...]:
    """Return a graph as it is, and if that is another order, the graph with its branches one after the other.

    The second order does not depend on the first, unless branches are equal.
    """
    order = _by_branches(graph)
    if order == list(range(len(order))):
        return (graph,)
    parts = tuple(replace(graph.parts[part], index=index) for index, part in enumerate(order))
    return graph, CascaderGraph(parts, graph.tensors, graph.tensor_of)


def _by_branches(graph: CascaderGraph) -> list[int]:
    """The parts in the order in which depth-first walks from the outputs leave them.

    Before a part, the branch runs first that needs most more memory than it leaves behind, as Sethi and Ullman order
    the operands of an expression. What several branches read is counted in each of them.
    """
    needed: list[int] = []
    branches: list[list[int]] = []
    for part in graph.parts:
        producers = (graph.producers[each.tensor] for each in part.inputs)
        before = dict.fromkeys(producer for producer in producers if producer not in (None, part.index))
        ordered = sorted(before, key=lambda each: _left(graph, each) - needed[each])
        held = most = 0
        for each in ordered:
            most = max(most, held + needed[each])
            held += _left(graph, each)
        needed.append(max(most, held + _left(graph, part.index)))
        branches.append(ordered)
    found: dict[int, None] = {}
    sinks = [part.index for part in graph.parts if not graph.consumers[part.output]]
    waiting = [(sink, False) for sink in reversed(sinks)]
    while waiting:
        number, is_left = waiting.pop()
        if is_left:
            found[number] = None
        elif number not in found:
            waiting.append((number, True))
            waiting.extend((each, False) for each in reversed(branches[number]))
    return list(found)


def _left(graph: CascaderGraph, part: int) -> int:
    """The bytes that a part leaves behind."""
    return graph.tensors[graph.parts[part].output].bytes
