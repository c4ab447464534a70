"""Layers that become one subgraph: what goes in, what comes out, and in which order the subgraphs run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.flow_partition import FlowKernel, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.partition.regions import FlowRegions, FlowVertex, vertices

Group = tuple[FlowKernel, ...]
"""The layers of one subgraph, in an order in which they can be computed."""


def merge_regions(graph: FlowGraph, kernels: Sequence[FlowKernel]) -> list[Group]:
    """Return the layers by subgraph.

    In topological order, a region absorbs each region of the accelerator that it reads from, unless another path leads
    from that one to it. What shares no more than an operand or a user on the host stays apart.
    """
    members = _with_tuples(graph, vertices(graph, [(kernel,) for kernel in kernels]))
    regions = FlowRegions(members)
    for number, vertex in enumerate(members):
        if vertex.on_accelerator:
            region = regions.of(number)
            for parent in regions.parents(region):
                if members[parent].on_accelerator and regions.may_absorb(region, parent):
                    regions.absorb(region, parent)
    groups: dict[int, list[FlowKernel]] = {}
    for number, vertex in enumerate(members):
        if vertex.kernels:
            groups.setdefault(regions.of(number), []).extend(vertex.kernels)
    return [tuple(group) for group in groups.values()]


def _with_tuples(graph: FlowGraph, members: Sequence[FlowVertex]) -> list[FlowVertex]:
    """Add a vertex for each tuple of values that all are the accelerator's: it joins the regions of its fields.

    As in Relay, the operands of a concatenation are a tuple, and so are several outputs of the graph. The tuple of a
    concatenation that the accelerator takes is part of it.
    """
    types = {kernel.output: graph.values[kernel.output].element_type for vertex in members for kernel in vertex.kernels}

    def tuple_of(fields: Sequence[str]) -> list[FlowVertex]:
        """A tuple, if all of its fields are the accelerator's and of one type, which is a binary's."""
        joins = len(set(fields)) > 1 and len({types.get(name) for name in fields}) == 1 and fields[0] in types
        return [FlowVertex(fields=tuple(fields))] if joins else []

    found: list[FlowVertex] = []
    for vertex in members:
        if not vertex.kernels and vertex.nodes[0].operator == Operator.CONCATENATE:
            found += tuple_of(vertex.nodes[0].inputs)
        found.append(vertex)
    return found + tuple_of(tuple(graph.outputs.values()))


def cut_out(graph: FlowGraph, groups: Iterable[Group]) -> list[FlowSubgraph]:
    """Return a subgraph for each group, numbered in an order in which they can run.

    Inputs are in the order of their first use; outputs are the values that others need or the graph returns, in the
    order of the layers.
    """
    regions = FlowRegions(vertices(graph, groups))
    ordered = [regions.members[region].kernels for region in regions.order()]
    subgraphs: list[FlowSubgraph] = []
    for kernels in ordered:
        if kernels:
            number = len(subgraphs)
            inputs, outputs = _inputs(graph, kernels), _outputs(graph, kernels)
            subgraphs.append(FlowSubgraph(number, f"tvmgen_mrvl_main_{number}", kernels, inputs, outputs))
    return subgraphs


def steps(partition: FlowPartition) -> list[FlowSubgraph | FlowNode]:
    """Return the subgraphs and the host's nodes in an order in which they can be computed."""
    regions = FlowRegions(vertices(partition.graph, [subgraph.kernels for subgraph in partition.subgraphs]))
    subgraph_of = {subgraph.kernels[0].output: subgraph for subgraph in partition.subgraphs}
    members = [regions.members[region] for region in regions.order()]
    return [subgraph_of[each.kernels[0].output] if each.kernels else each.nodes[0] for each in members]


def within(graph: FlowGraph, groups: Sequence[Group]) -> list[Group]:
    """Return groups with their nodes as they are in another graph, which has the same outputs of layers."""
    nodes = {node.output: node for node in graph.nodes}
    for kernel in (kernel for group in groups for kernel in group):
        for node in kernel.nodes:
            if node.output not in nodes:
                raise FlowError(f"node '{node.name}': got a graph without its output {node.output}, expected it there")
    return [
        tuple(replace(kernel, nodes=tuple(nodes[node.output] for node in kernel.nodes)) for kernel in group)
        for group in groups
    ]


def _inputs(graph: FlowGraph, kernels: Sequence[FlowKernel]) -> tuple[str, ...]:
    made = {name for kernel in kernels for node in kernel.nodes for name in node.outputs}
    read = [name for kernel in kernels for node in kernel.nodes for name in node.inputs]
    return tuple(name for name in dict.fromkeys(read) if name not in made and name not in graph.constants)


def _outputs(graph: FlowGraph, kernels: Sequence[FlowKernel]) -> tuple[str, ...]:
    within_it = {node.output for kernel in kernels for node in kernel.nodes}
    needed = {name for node in graph.nodes if node.output not in within_it for name in node.inputs}
    needed |= set(graph.outputs.values())
    return tuple(kernel.output for kernel in kernels if kernel.output in needed)
