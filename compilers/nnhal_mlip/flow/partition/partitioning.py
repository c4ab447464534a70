"""The whole flow from an imported graph to a partition, in the steps of the public one (TVM 0.19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nnhal_mlip.flow.flow_partition import (
    FlowKernel,
    FlowOptions,
    FlowPartition,
    FlowSubgraph,
    Objection,
    Reversion,
)
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.choosing import check_names, first_layers, last_softmaxes, sent_to_host
from nnhal_mlip.flow.partition.cutting import Group, cut_out, merge_regions, within
from nnhal_mlip.flow.partition.reverting import Worth, idle_reason, public_reason, too_many_ports
from nnhal_mlip.flow.passes.functions import in_own_operators
from nnhal_mlip.flow.passes.layouts import convert_layouts, restore_layouts
from nnhal_mlip.flow.passes.simplify import simplify
from nnhal_mlip.flow.patterns.matching import match_composites


def partition(graph: FlowGraph, options: FlowOptions | None = None, worth: Worth | None = None) -> FlowPartition:
    """Partition a graph.

    By the public rules, subgraphs are reverted as the public flow does it. Beyond them, those go back that only
    transform layouts, and ``worth`` decides on the others: it may say for a subgraph of the converted graph why it is
    not worth it; without it all of them stay.
    Raises FlowError for an option that does not fit the graph.
    """
    options = options or FlowOptions()
    check_names(graph, options.to_host)
    simple = simplify(graph)
    if options.beyond_public:
        simple = simplify(in_own_operators(simple))
    converted = simplify(convert_layouts(simple, options.beyond_public))
    stay = {**(last_softmaxes(converted) if options.whole else {}), **sent_to_host(converted, options.to_host)}
    found = match_composites(converted, options.beyond_public, stay)
    objections = dict(found.objections)
    if options.keep is None:
        groups = merge_regions(converted, found.kernels)
    else:
        kept = first_layers(converted, found.kernels, options.keep)
        groups = [tuple(kept)] if kept else []
        objections.update(_behind(found.kernels, kept, options.keep))
    remaining: list[Group] = []
    reversions: list[Reversion] = []
    for subgraph in cut_out(converted, groups):
        reason = _reason(converted, subgraph, options, worth)
        if reason:
            outputs = tuple(node.output for kernel in subgraph.kernels for node in kernel.nodes)
            reversions.append(Reversion(outputs, reason))
            objections.update(dict.fromkeys(outputs, _reverted(reason)))
        else:
            remaining.append(subgraph.kernels)
    taken = {node.output for group in remaining for kernel in group for node in kernel.nodes}
    restored = restore_layouts(converted, taken)
    subgraphs = cut_out(restored, within(restored, remaining))
    if options.beyond_public:
        subgraphs = [_marked(subgraph) for subgraph in subgraphs]
    reasons = _reasons(converted, restored, taken, objections)
    return FlowPartition(restored, tuple(subgraphs), reasons, tuple(reversions))


def _reason(graph: FlowGraph, subgraph: FlowSubgraph, options: FlowOptions, worth: Worth | None) -> str | None:
    found = too_many_ports(subgraph)
    if found or not options.revert:
        return found
    if not options.beyond_public:
        return public_reason(subgraph)
    return idle_reason(subgraph) or (worth(graph, subgraph) if worth else None)


def _marked(subgraph: FlowSubgraph) -> FlowSubgraph:
    """Say of each layer of a subgraph that the public flow would not keep it."""
    reason = public_reason(subgraph)
    if not reason:
        return subgraph
    mark = f"subgraph: {reason}; the public flow gives it back to the host"
    kernels = (replace(kernel, beyond_public=(*kernel.beyond_public, mark)) for kernel in subgraph.kernels)
    return replace(subgraph, kernels=tuple(kernels))


def _reverted(reason: str) -> Objection:
    return Objection(
        "REVERTED", f"a subgraph that goes back to the host: {reason}", "a subgraph that stays", "", "subgraph"
    )


def _behind(kernels: Iterable[FlowKernel], kept: Sequence[FlowKernel], count: int) -> dict[str, Objection]:
    """Return the objections to layers that are not among the first."""
    stay = {kernel.output for kernel in kept}
    objection = Objection("REVERTED", "a later layer", f"the first {count} layers", check="options.keep")
    return {node.output: objection for kernel in kernels if kernel.output not in stay for node in kernel.nodes}


def _reasons(
    converted: FlowGraph, restored: FlowGraph, taken: set[str], objections: Mapping[str, Objection]
) -> dict[str, Objection]:
    """Return the objections to the nodes of the restored graph.

    A node whose layout was restored may have another output; it is known by what it stands for.
    """
    by_source = {(node.operator, node.sources): objections.get(node.output) for node in converted.nodes if node.sources}
    by_output = {(node.operator, node.output): objections.get(node.output) for node in converted.nodes}
    of_host = Objection("REVERTED", "an operator that only the host needs", "one that feeds a layer", check="host")
    return {
        node.output: by_output.get((node.operator, node.output))
        or by_source.get((node.operator, node.sources))
        or of_host
        for node in restored.nodes
        if node.output not in taken
    }
