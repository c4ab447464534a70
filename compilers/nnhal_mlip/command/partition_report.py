"""A network that is shared with the accelerator, and the report of that."""

from __future__ import annotations

from typing import Any

from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.costs import worth_by_cost
from nnhal_mlip.flow.files.kernel_description import LAYERS
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import TimingProfile

Told = dict[str, Any]
"""An object of the JSON that ``nnhal mlip partition --json`` prints."""


def share(graph: FlowGraph, choices: FlowOptions, profile: TimingProfile, tiles: int, pinned: bool) -> FlowPartition:
    """Partition a graph. Raises FlowError for a choice that does not fit it."""
    worth = worth_by_cost(MlipOptions(profile, tiles, pinned)) if choices.beyond_public else None
    return partition(graph, choices, worth)


def rule(choices: FlowOptions) -> str:
    """Return a sentence that says which subgraphs go back to the host."""
    if choices.beyond_public:
        return (
            "A subgraph without a convolution or dense layer goes back to the host if its modelled time there is less."
        )
    return "A subgraph goes back to the host by the rules of the public flow."


def partition_report(model: FlowModel, found: FlowPartition, choices: FlowOptions) -> Told:
    """Return all of a partition by the user's names, with the reasons of what stays on the host."""
    names = {node.output: node.name for node in found.graph.nodes}
    return {
        "model": model.name,
        "public": not choices.beyond_public,
        "rule": rule(choices),
        "subgraphs": [_subgraph(found, subgraph) for subgraph in found.subgraphs],
        "host": [_host(model, found, node) for node in found.host],
        "reversions": [
            {"nodes": list(dict.fromkeys(names.get(node, node) for node in each.nodes)), "reason": each.reason}
            for each in found.reversions
        ],
        "steps": [step.symbol if isinstance(step, FlowSubgraph) else step.name for step in steps(found)],
    }


def _subgraph(found: FlowPartition, subgraph: FlowSubgraph) -> Told:
    kernels = [
        {
            "layer": LAYERS[kernel.operator][0],
            "composite": kernel.composite,
            "operators": [node.operator for node in kernel.nodes],
            "user_names": kernel.user_names,
            "output": kernel.output,
            "shape": found.graph.shape(kernel.output),
            "beyond_public": kernel.beyond_public,
        }
        for kernel in subgraph.kernels
    ]
    return {"symbol": subgraph.symbol, "inputs": subgraph.inputs, "outputs": subgraph.outputs, "kernels": kernels}


def _host(model: FlowModel, found: FlowPartition, node: FlowNode) -> Told:
    """Tell of a node of the host; one that a pass has added has no word of the user's format."""
    objection, refusal = found.objections[node.output], model.refusals.get(node.output)
    why = refusal or objection
    return {
        "name": node.name,
        "added": not node.sources,
        "kind": node.sources[0].kind if node.sources else "",
        "operator": node.operator,
        "output": node.output,
        "code": why.code,
        "got": why.got,
        "allowed": why.allowed,
        "hint": why.hint,
        "check": "import" if refusal else objection.check,
    }
