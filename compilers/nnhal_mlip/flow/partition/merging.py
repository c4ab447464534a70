"""Layers that become one subgraph: each with those before it, as far as the subgraph does not depend on itself."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_mlip.flow.flow_partition import FlowKernel
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
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
