"""The outcome of partitioning a graph: subgraphs for the accelerator, the host's part, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """Options of the partition of a graph."""

    beyond_public: bool = True
    """True if the accelerator also takes what the public flow refuses: RELU6, float16, leading sums and so on."""
    revert: bool = True
    """True if subgraphs that are not worth it go back to the host."""
    keep: int | None = None
    """How many layers the accelerator may have at most, those that passes add included, in the order of the graph, each
    of them fed by the graph's inputs or by such layers; None for any number.
    """
    to_host: tuple[str, ...] = ()
    """Names of the user's nodes that stay on the host."""
    whole: bool = True
    """True if the graph is the user's whole model: then a softmax whose result leaves it stays on the host."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Reason why the accelerator does not take an operator."""

    code: str
    """As in ``nnhal.support.Unsupported``, and REVERTED."""
    got: str
    allowed: str
    hint: str = ""
    check: str = ""
    """The check that failed: ``conv2d.groups``."""


@dataclass(frozen=True, slots=True)
class FlowKernel:
    """A layer of the accelerator: a composite, or a bare operator."""

    composite: str
    """``mrvl.conv2d_nhwc2nhwc``; empty for a bare operator."""
    operator: str
    """The operator that gives the layer its name, of those in ``nodes``."""
    nodes: tuple[FlowNode, ...]
    """In an order in which they can be computed."""
    beyond_public: tuple[str, ...] = ()
    """What of it the public flow would refuse, and why; empty if nothing."""

    @property
    def output(self) -> str:
        return self.nodes[-1].output

    @property
    def user_names(self) -> tuple[str, ...]:
        """The names of the user's nodes that it stands for, in order."""
        return tuple(dict.fromkeys(source.name for node in self.nodes for source in node.sources))


@dataclass(frozen=True, slots=True)
class FlowSubgraph:
    """Layers that are compiled into one binary. Of the values between, only outputs leave the accelerator."""

    number: int
    symbol: str
    """``tvmgen_mrvl_main_<number>``"""
    kernels: tuple[FlowKernel, ...]
    inputs: tuple[str, ...]
    """Values that others compute or that the graph is fed, without constants, in the order of their first use."""
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reversion:
    """A subgraph that was given back to the host."""

    nodes: tuple[str, ...]
    """The outputs of its nodes."""
    reason: str


@dataclass(frozen=True)
class FlowPartition:
    """A graph after all passes, with its subgraphs."""

    graph: FlowGraph
    """Holds the nodes of the subgraphs and those of the host."""
    subgraphs: tuple[FlowSubgraph, ...]
    """In an order in which they can run."""
    objections: Mapping[str, Objection]
    """For each node that stays on the host, by its output."""
    reversions: tuple[Reversion, ...] = ()

    @cached_property
    def host(self) -> tuple[FlowNode, ...]:
        taken = {node.output for subgraph in self.subgraphs for kernel in subgraph.kernels for node in kernel.nodes}
        return tuple(node for node in self.graph.nodes if node.output not in taken)
