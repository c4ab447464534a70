"""Models that runtimes of ONNX take, and its checker does not, in the form that the checker takes.

ONNX Runtime runs models whose main graph has no name, whose nodes stand in another order than that of their values,
which call ONNX's own domain "ai.onnx", and which use operators of its own domain without importing it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

_OWN_DOMAIN = "ai.onnx"
_RUNTIMES = {"com.microsoft": 1}
"""The domains that ONNX Runtime imports by itself, in the versions that it imports."""
_WITH_GRAPHS = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""ONNX's own operators that have graphs."""
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def to_usual_form(model: ModelProto) -> ModelProto:
    """Change a model that was just parsed to the form that ONNX's checker takes, and return it."""
    graph = model.graph
    if model.HasField("graph") and not graph.name:
        graph.name = "main"
    domains = set()
    for node in _all_nodes((*graph.node, *(node for function in model.functions for node in function.node))):
        if node.domain == _OWN_DOMAIN:
            node.domain = ""
        domains.add(node.domain)
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        if any(entry.domain == _OWN_DOMAIN for entry in imports):
            others = [entry for entry in imports if entry.domain not in ("", _OWN_DOMAIN)]
            version = max(entry.version for entry in imports if entry.domain in ("", _OWN_DOMAIN))
            kept = [(entry.domain, entry.version) for entry in others]
            del imports[:]
            for domain, number in (("", version), *kept):
                imports.add(domain=domain, version=number)
    imported = {entry.domain for entry in model.opset_import}
    for domain in domains & _RUNTIMES.keys() - imported:
        model.opset_import.add(domain=domain, version=_RUNTIMES[domain])
    if not _is_in_order(graph):
        _put_in_order(graph)
    return model


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        # To look at all attributes would take as long as to parse the file ten times.
        for attribute in node.attribute if node.op_type in _WITH_GRAPHS or node.domain else ():
            if attribute.type in _GRAPHS:
                for graph in (attribute.g, *attribute.graphs):
                    yield from _all_nodes(graph.node)


def _is_in_order(graph: GraphProto) -> bool:
    """Return whether no node reads what a later one writes."""
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if not later.isdisjoint(node.input):
            return False
        later.difference_update(node.output)
    return True


def _put_in_order(graph: GraphProto) -> None:
    """Have each node stand behind those whose values it reads; a cycle stays as it is, for the checker to refuse."""
    writers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    needs = [{writers[name] for name in _read(node) if name in writers} for node in graph.node]
    readers: list[list[int]] = [[] for _ in needs]
    for number, needed in enumerate(needs):
        for writer in needed:
            readers[writer].append(number)
    ready, order = deque(number for number, needed in enumerate(needs) if not needed), list[int]()
    while ready:
        number = ready.popleft()
        order.append(number)
        for reader in readers[number]:
            needs[reader].discard(number)
            if not needs[reader]:
                ready.append(reader)
    if len(order) == len(graph.node):
        nodes = [NodeProto.FromString(graph.node[number].SerializeToString()) for number in order]
        del graph.node[:]
        graph.node.extend(nodes)


def _read(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node and the graphs within it read."""
    for inner in _all_nodes([node]):
        yield from inner.input
