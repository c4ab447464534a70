"""Remove what computes nothing, compute what is constant, and merge movements that follow one another.

As TVM does before it partitions a graph: dropout and copies go; constants are folded; reshapes of reshapes become one;
transpositions and layout transforms become one or none; adding 0 and multiplying by 1 vanish.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, SourceNode
from nnhal_mlip.flow.passes.folding import folded, merged, passed_through


def simplify(graph: FlowGraph) -> FlowGraph:
    """Return a graph with the same results, without needless nodes, and without what no output needs.

    Integers are moved, but never computed with. A user's node that vanishes or is merged is added to the sources of the
    node that now computes its result, so that it keeps its place in reports. The values that stay keep their names.
    """
    constants = dict(graph.constants)
    renamed: dict[str, str] = {}
    producers: dict[str, FlowNode] = {}
    steps = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        constant = folded(graph, node, constants)
        if constant is not None:
            constants[node.output] = constant
            continue
        step = _step(graph, node, producers)
        passed = passed_through(graph, step.node, constants)
        if passed is None:
            producers.update(dict.fromkeys(node.outputs, step.node))
        else:
            renamed[node.output] = passed
        steps.append(step._replace(passed=passed))
    outputs = {user: renamed.get(name, name) for user, name in graph.outputs.items()}
    needed = set(outputs.values())
    for step in reversed(steps):
        if step.passed is None and not needed.isdisjoint(step.node.outputs):
            needed.update(step.node.inputs)
    sources = _sources(steps, needed)
    nodes = tuple(
        replace(step.node, sources=sources[step.node.output])
        for step in steps
        if step.passed is None and not needed.isdisjoint(step.node.outputs)
    )
    kept = needed.union(graph.inputs, *(node.outputs for node in nodes))
    return FlowGraph(
        nodes,
        graph.inputs,
        outputs,
        {name: value for name, value in graph.values.items() if name in kept},
        {name: array for name, array in constants.items() if name in kept},
    )


class _Step(NamedTuple):
    """Outcome of a node."""

    node: FlowNode
    behind: FlowNode | None
    """The movement in front of it that it has taken over."""
    passed: str | None = None
    """The value that its users read instead of its result."""


def _step(graph: FlowGraph, node: FlowNode, producers: dict[str, FlowNode]) -> _Step:
    first = producers.get(node.inputs[0]) if len(node.inputs) == 1 else None
    both = None if first is None else merged(first, node)
    if both is None or graph.values[both.inputs[0]].scales != graph.values[node.output].scales:
        return _Step(node, None)
    return _Step(both, first)


def _sources(steps: list[_Step], needed: set[str]) -> dict[str, tuple[SourceNode, ...]]:
    """Return for each node, by its output, the user's nodes that it stands for."""
    found: dict[str, tuple[SourceNode, ...]] = {}
    for step in steps:
        own = step.node.sources
        if step.behind is not None and step.behind.output not in needed:
            own = (*found[step.behind.output], *own)
        if step.passed is None:
            found[step.node.output] = tuple(dict.fromkeys(own))
        elif step.passed in found:
            found[step.passed] = tuple(dict.fromkeys((*found[step.passed], *own)))
    return found
