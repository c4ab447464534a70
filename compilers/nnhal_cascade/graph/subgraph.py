"""Some parts of a graph as a graph of their own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnhal_cascade.graph.cascader_graph import CascaderGraph


def subgraph(graph: CascaderGraph, parts: Collection[int]) -> CascaderGraph:
    """Return the graph of some parts, given by their indexes.

    What other parts write becomes an input of the network, and what other parts read becomes an output.
    """
    kept = [part for part in graph.parts if part.index in parts]
    made = {part.output for part in kept}
    used = sorted(made | {each.tensor for part in kept for each in part.inputs})
    index_of = {tensor: index for index, tensor in enumerate(used)}
    return CascaderGraph(
        tuple(
            replace(
                part,
                index=index,
                inputs=tuple(replace(each, tensor=index_of[each.tensor]) for each in part.inputs),
                output=index_of[part.output],
            )
            for index, part in enumerate(kept)
        ),
        tuple(
            replace(
                graph.tensors[tensor],
                index=index,
                is_input=tensor not in made,
                is_output=tensor in made
                and (graph.tensors[tensor].is_output or any(n not in parts for n in graph.consumers[tensor])),
            )
            for index, tensor in enumerate(used)
        ),
        {operand: index_of[tensor] for operand, tensor in graph.tensor_of.items() if tensor in index_of},
    )
