"""Choice of the layers that the user lets the accelerator have."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.flow_partition import FlowKernel, Objection
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.operators import Operator


def check_names(graph: FlowGraph, names: Sequence[str]) -> None:
    """Raise FlowError if the user's model has no node of such a name."""
    known = dict.fromkeys(source.name for node in graph.nodes for source in node.sources)
    for name in names:
        if name not in known:
            raise FlowError(f"to_host: got '{name}', expected names of nodes of the model: {', '.join(known)}")


def sent_to_host(graph: FlowGraph, names: Sequence[str]) -> dict[str, Objection]:
    """Return the nodes that the user wants on the host, by their outputs."""
    return {
        node.output: Objection("REVERTED", f"{source.name}, given to the host", "other nodes", check="options.to_host")
        for node in graph.nodes
        for source in node.sources
        if source.name in names
    }


def last_softmaxes(graph: FlowGraph) -> dict[str, Objection]:
    """Return the softmaxes whose results leave a graph, by their outputs.

    The model's outputs are handed over in any case, and the host computes their probabilities in float32.
    """
    objection = Objection(
        "REVERTED",
        "a softmax whose result leaves the model",
        "one that a later layer reads",
        "the host computes the model's last softmax in float32",
        "softmax.output",
    )
    leaving = set(graph.outputs.values())
    return {
        node.output: objection for node in graph.nodes if node.operator == Operator.SOFTMAX and node.output in leaving
    }


def first_layers(graph: FlowGraph, kernels: Sequence[FlowKernel], count: int) -> list[FlowKernel]:
    """Return the first layers whose operands are the graph's inputs, constants or results of such layers.

    Layers that a pass has added are counted too, as in the proposal for TVM: there, the layout transform of the input
    is the first of four that are kept.
    """
    if count < 0:
        raise FlowError(f"keep: got {count} layers, expected 0 or more")
    fed = set(graph.inputs) | set(graph.constants)
    kept: list[FlowKernel] = []
    for kernel in kernels:
        made = {name for node in kernel.nodes for name in node.outputs}
        read = {name for node in kernel.nodes for name in node.inputs} - made
        if len(kept) < count and read <= fed:
            kept.append(kernel)
            fed |= made
    return _without_idle(kept)


def _without_idle(kept: Sequence[FlowKernel]) -> list[FlowKernel]:
    """Drop layers that move the graph's inputs, but for no layer that stays."""
    made = {kernel.output for kernel in kept if kernel.user_names}
    for kernel in kept:
        if not kernel.user_names and any(name in made for node in kernel.nodes for name in node.inputs):
            made.add(kernel.output)
    needed: set[str] = set()
    for kernel in reversed(kept):
        if kernel.output in made or kernel.output in needed:
            needed |= {name for node in kernel.nodes for name in node.inputs}
    return [kernel for kernel in kept if kernel.output in made or kernel.output in needed]
