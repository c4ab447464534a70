"""Outcome of a partition as seen from outside, for comparisons; and a partition computed step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.flow.partition.partitioning import partition

LAYER_NAMES = {
    "conv2d": "Conv2D",
    "dense": "FC",
    "max_pool2d": "Maxpool2D",
    "avg_pool2d": "Avgpool2D",
    "global_avg_pool2d": "GlobalAvgpool2D",
    "global_max_pool2d": "GlobalMaxpool2D",
    "add": "Sum2D",
    "concatenate": "Concat",
    "batch_flatten": "nn.batch_flatten",
}
PUBLIC_FLOW = FlowOptions(beyond_public=False)


class SubgraphOutcome(NamedTuple):
    """A subgraph by its layers' names, with how many inputs and outputs it has."""

    layers: tuple[str, ...]
    inputs: int = 1
    outputs: int = 1


def subgraph_outcomes(partitioned: FlowPartition) -> list[SubgraphOutcome]:
    return [
        SubgraphOutcome(
            tuple(LAYER_NAMES.get(kernel.operator, kernel.operator) for kernel in subgraph.kernels),
            len(subgraph.inputs),
            len(subgraph.outputs),
        )
        for subgraph in partitioned.subgraphs
    ]


def host_operators(partitioned: FlowPartition) -> list[str]:
    return sorted(str(node.operator) for node in partitioned.host)


def publicly(graph: FlowGraph) -> FlowPartition:
    return partition(graph, PUBLIC_FLOW)


def evaluate_outputs(graph: FlowGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return a graph's outputs by the user's names."""
    values = evaluate(graph, inputs)
    return {user: values[name] for user, name in graph.outputs.items()}


def evaluate_steps(partitioned: FlowPartition, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the graph's outputs by the user's names, from subgraph after subgraph and host node after host node.

    A step sees nothing but the graph's inputs, constants, and what earlier steps hand out.
    """
    graph = partitioned.graph
    known = dict(inputs)
    for step in steps(partitioned):
        given, nodes, made = _step(step)
        part_inputs = tuple(name for name in dict.fromkeys(given) if name not in graph.constants)
        part = FlowGraph(nodes, part_inputs, {name: name for name in made}, graph.values, graph.constants)
        found = evaluate(part, {name: known[name] for name in part_inputs})
        known |= {name: found[name] for name in made}
    return {user: known[name] if name in known else graph.constants[name] for user, name in graph.outputs.items()}


def _step(step: FlowSubgraph | FlowNode) -> tuple[tuple[str, ...], tuple[FlowNode, ...], tuple[str, ...]]:
    if isinstance(step, FlowNode):
        return step.inputs, (step,), step.outputs
    return step.inputs, tuple(node for kernel in step.kernels for node in kernel.nodes), step.outputs
