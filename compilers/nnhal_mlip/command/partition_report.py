"""What there is to say of a partition."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.command.layer_names import layer_kind
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.sharing import SharingChoices, rule
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.partition.cutting import steps


@dataclass(frozen=True, slots=True)
class KernelReport:
    """A layer of the accelerator."""

    layer: str
    """Its kind, as in the nodes file: ``Conv2D``."""
    composite: str
    """The public flow's name of its pattern; empty if the operator goes alone."""
    operators: tuple[str, ...]
    user_names: tuple[str, ...]
    """The user's nodes that it stands for; none if a pass has added it."""
    output: str
    shape: tuple[int, ...]
    beyond_public: tuple[str, ...]
    """What of it the public flow would refuse."""


@dataclass(frozen=True, slots=True)
class SubgraphReport:
    """A subgraph, which becomes one binary."""

    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kernels: tuple[KernelReport, ...]


@dataclass(frozen=True, slots=True)
class HostReport:
    """An operator that stays on the host, and why."""

    name: str
    """The user's name of the node; that of its output if a pass has added it."""
    added: bool
    """Whether a pass has added it."""
    kind: str
    """The word of the user's format: ``Softmax``; empty if a pass has added it."""
    operator: str
    output: str
    code: str
    got: str
    allowed: str
    hint: str
    check: str
    """The check that failed."""

    @property
    def reason(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"got {self.got}, expected {self.allowed}{hint}"


@dataclass(frozen=True, slots=True)
class ReversionReport:
    """A subgraph that went back to the host."""

    nodes: tuple[str, ...]
    """The user's names."""
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A partition of a user's model."""

    model: str
    public: bool
    rule: str
    """Which subgraphs go back to the host."""
    subgraphs: tuple[SubgraphReport, ...]
    host: tuple[HostReport, ...]
    """In order."""
    reversions: tuple[ReversionReport, ...]
    steps: tuple[str, ...]
    """The order in which subgraphs and operators of the host are computed."""

    @property
    def layers(self) -> int:
        return sum(len(subgraph.kernels) for subgraph in self.subgraphs)


def partition_report(model: FlowModel, found: FlowPartition, choices: SharingChoices) -> PartitionReport:
    names = _user_names(found)
    return PartitionReport(
        model=model.name,
        public=choices.public,
        rule=rule(choices),
        subgraphs=tuple(_subgraph(found, subgraph) for subgraph in found.subgraphs),
        host=tuple(_host(model, found, node) for node in found.host),
        reversions=tuple(
            ReversionReport(tuple(dict.fromkeys(names.get(node, node) for node in each.nodes)), each.reason)
            for each in found.reversions
        ),
        steps=tuple(step.symbol if isinstance(step, FlowSubgraph) else step.name for step in steps(found)),
    )


def _user_names(found: FlowPartition) -> dict[str, str]:
    """The user's name of the node that computes each value of the host."""
    return {node.output: node.name for node in found.graph.nodes}


def _subgraph(found: FlowPartition, subgraph: FlowSubgraph) -> SubgraphReport:
    kernels = tuple(
        KernelReport(
            layer=layer_kind(kernel),
            composite=kernel.composite,
            operators=tuple(node.operator for node in kernel.nodes),
            user_names=kernel.user_names,
            output=kernel.output,
            shape=found.graph.shape(kernel.output),
            beyond_public=kernel.beyond_public,
        )
        for kernel in subgraph.kernels
    )
    return SubgraphReport(subgraph.symbol, subgraph.inputs, subgraph.outputs, kernels)


def _host(model: FlowModel, found: FlowPartition, node: FlowNode) -> HostReport:
    objection = found.objections[node.output]
    refusal = model.refusals.get(node.output)
    why = refusal or objection
    return HostReport(
        name=node.name,
        added=not node.sources,
        kind=node.sources[0].kind if node.sources else "",
        operator=node.operator,
        output=node.output,
        code=why.code,
        got=why.got,
        allowed=why.allowed,
        hint=why.hint,
        check="import" if refusal else objection.check,
    )
