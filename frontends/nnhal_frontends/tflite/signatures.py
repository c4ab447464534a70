"""Signatures: the entry points of a file, each with a subgraph and with names for its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.tflite.graph import TfliteGraph
from nnhal_frontends.tflite.options import subgraphs_of

_MOST_NAMED = 16


@dataclass(frozen=True, slots=True)
class TfliteSignature:
    name: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    """The names of inputs, and their tensors."""
    outputs: tuple[tuple[str, int], ...]
    """The names of outputs, and their tensors. A tensor may have several names."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """The subgraphs of a file as an importer wants them: the first one is that of the chosen signature."""

    graphs: tuple[TfliteGraph, ...]
    input_names: Mapping[int, str] = field(default_factory=dict)
    """Names of inputs that the signature has, by tensor; others have those of their tensors."""
    output_names: Sequence[str] = ()
    """The names of all outputs; empty if they have those of their tensors."""


def entry_point(graphs: tuple[TfliteGraph, ...], signatures: Sequence[TfliteSignature], name: str | None) -> EntryPoint:
    """Return the file's first subgraph without a ``name``, otherwise the subgraph of that signature.

    Raises InvalidModel if there is no such signature, or if it contradicts its subgraph.
    """
    if name is None:
        return EntryPoint(graphs)
    signature = next((each for each in signatures if each.name == name), None)
    if signature is None:
        raise InvalidModel(f"the file has no signature '{name}', it has {_listed(signatures)}")
    if not 0 <= signature.subgraph < len(graphs):
        raise InvalidModel(f"signature '{name}' is of subgraph {signature.subgraph}, the file has {len(graphs)}")
    graph = graphs[signature.subgraph]
    inputs = {tensor: given for given, tensor in signature.inputs}
    if sorted(inputs) != sorted(graph.inputs) or len(inputs) != len(signature.inputs):
        got = f"names {len(signature.inputs)} inputs"
        raise InvalidModel(f"signature '{name}' {got}, expected each of its subgraph's {len(graph.inputs)} once")
    outputs = tuple(tensor for _, tensor in signature.outputs)
    if not outputs or not set(outputs) <= set(graph.outputs):
        raise InvalidModel(f"signature '{name}' names outputs that its subgraph does not have")
    chosen = replace(graph, outputs=outputs)
    return EntryPoint(_with_main(graphs, signature, chosen), inputs, [given for given, _ in signature.outputs])


def _with_main(
    graphs: tuple[TfliteGraph, ...], signature: TfliteSignature, chosen: TfliteGraph
) -> tuple[TfliteGraph, ...]:
    """Return the subgraphs with the chosen one first, in whose place is the one that was first."""
    number = signature.subgraph
    moved = {0, number} if number else set()
    for graph in graphs:
        for operator in graph.operators:
            if moved.intersection(subgraphs_of(operator).values()):
                raise InvalidModel(f"operator '{operator.name}' refers to the subgraph of a signature, expected others")
    others = [graphs[0] if place == number else graph for place, graph in enumerate(graphs)]
    return (chosen, *others[1:])


def _listed(signatures: Sequence[TfliteSignature]) -> str:
    names = [f"'{signature.name}'" for signature in signatures]
    shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    return shown or "none"
