"""Choice of the subgraphs that go back to the host."""

from __future__ import annotations

from collections.abc import Callable

from nnhal_mlip.flow.flow_partition import FlowKernel, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.program.program import MAX_PORTS

Worth = Callable[[FlowGraph, FlowSubgraph], str | None]
"""Returns why a subgraph of a graph is not worth it, or None if it is."""


def too_many_ports(subgraph: FlowSubgraph) -> str | None:
    """Return why no binary can hold a subgraph, or None."""
    for what, names in (("inputs", subgraph.inputs), ("outputs", subgraph.outputs)):
        if len(names) > MAX_PORTS:
            return f"it has {len(names)} {what}, and a binary has at most {MAX_PORTS}"
    return None


def idle_reason(subgraph: FlowSubgraph) -> str | None:
    """Return why a subgraph without any of the user's nodes is not worth it, or None."""
    if any(kernel.user_names for kernel in subgraph.kernels):
        return None
    return "it has only layout transforms"


def public_reason(subgraph: FlowSubgraph) -> str | None:
    """Return why the public flow reverts a subgraph, or None.

    It does without a convolution or dense layer. It also does if a layer that reads one of the subgraph's inputs is a
    concatenation, or has one anywhere before it in the subgraph.
    """
    if not any(kernel.operator in (Operator.CONV2D, Operator.DENSE) for kernel in subgraph.kernels):
        return "it has neither a convolution nor a dense layer"
    behind_concat: dict[str, str] = {}
    for kernel in subgraph.kernels:
        read = _read(kernel)
        concat = next((behind_concat[name] for name in read if name in behind_concat), "")
        if kernel.operator == Operator.CONCATENATE:
            concat = kernel.output
        entering = next((name for name in read if name in subgraph.inputs), "")
        if concat and entering:
            how = "into" if concat == kernel.output else f"into {kernel.output}, which follows"
            return f"its input {entering} goes {how} the concatenation {concat}"
        if concat:
            behind_concat[kernel.output] = concat
    return None


def _read(kernel: FlowKernel) -> list[str]:
    return [name for node in kernel.nodes for name in node.inputs]
