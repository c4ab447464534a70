"""Subgraphs of groups of layers: what goes in, what comes out, and in which order they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnhal_mlip.flow.flow_partition import FlowKernel, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.partition.merging import Group
from nnhal_mlip.flow.partition.regions import FlowRegions, vertices


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
