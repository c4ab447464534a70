"""Facts of a model that conditions of faults ask about."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nnhal.extensions import onnx
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, OperationType
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_ref.extension import node_place

if TYPE_CHECKING:
    from onnx import GraphProto

_DIGITS = 12


class ModelLayer(NamedTuple):
    """An operation of a model, or a node of one that is a graph of ONNX's, as faults name it."""

    subgraph: int
    """0 is main, 1 is referenced subgraph 0."""

    number: int
    """The number of the operation in its subgraph."""

    type: str
    """As the HAL names it, or ONNX."""

    names: Sequence[str]
    """Of an operation its number, behind that of a referenced subgraph if it is in one: ``3``, or ``0:3``.

    Of a node its own name and those of its outputs, as they are in the user's file. Within a node, such as in the body
    of a Loop, these come after each name of that node, and the name of its attribute: ``loop/body/add``.
    """

    place: str = ""
    """What tells a node from the others of its operation: see Alteration. Empty for an operation."""


class ModelFacts(NamedTuple):
    """A model, as conditions of faults see it."""

    fingerprint: str
    """Digits that tell models apart by their operations and the types and dimensions of their operands.

    Models have no names over the HAL. Models that differ in the values of their constants only have the same one.
    """

    operations: frozenset[str]
    """The types of its operations, those of referenced subgraphs too."""

    working_bytes: int = 0
    """Bytes of the device's working memory that a run takes; 0 if that is unknown, or before it is prepared."""

    layers: Callable[[], Sequence[ModelLayer]] = tuple
    """Looks for its operations, which takes long if they are graphs; none before it is prepared."""


def facts_of(model: Model) -> ModelFacts:
    """Look at a model."""
    digest = hashlib.sha256()
    operations: set[str] = set()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            digest.update(repr((int(operand.type), tuple(operand.dimensions), int(operand.lifetime))).encode())
        for operation in graph.operations:
            digest.update(repr((int(operation.type), tuple(operation.inputs), tuple(operation.outputs))).encode())
            operations.add(name_of_operation(operation.type))
    return ModelFacts(digest.hexdigest()[:_DIGITS], frozenset(operations))


def layers_of(resolved: ResolvedModel) -> Iterator[ModelLayer]:
    """Yield the operations of a model, those of main first, and after an operation that is a graph its nodes."""
    for subgraph, graph in enumerate(resolved.subgraphs):
        for number, operation in enumerate(graph.operations):
            name = f"{subgraph - 1}:{number}" if subgraph else str(number)
            yield ModelLayer(subgraph, number, name_of_operation(operation.type), (name,))
            if onnx.number_of(resolved.model, operation.type) == onnx.RUN:
                message = resolved.constants[subgraph].get(operation.inputs[0])
                if message is not None:
                    from onnx import ModelProto  # models without the extension need no ONNX

                    graph_of_onnx = ModelProto.FromString(message.tobytes()).graph
                    yield from _nodes_of(graph_of_onnx, ("",), ModelLayer(subgraph, number, "", ()))


def _nodes_of(graph: GraphProto, before: Sequence[str], around: ModelLayer) -> Iterator[ModelLayer]:
    """Yield the nodes of a graph that is ``around`` them, each before those within it.

    ``before`` is what comes before their names.
    """
    for node in graph.node:
        own = dict.fromkeys(name for name in (node.name, *node.output) if name)
        names = tuple(f"{path}{name}" for path in before for name in own)
        found = around._replace(type=node.op_type, names=names, place=node_place(around.place, node))
        yield found
        for attribute in node.attribute:
            if attribute.HasField("g"):
                paths = tuple(f"{name}/{attribute.name}/" for name in names)
                yield from _nodes_of(attribute.g, paths, found._replace(place=f"{found.place}/{attribute.name}/"))


def name_of_operation(code: int) -> str:
    """The name of a type of operations as the HAL has it; a number for one of an extension."""
    return f"{code:#x}" if is_extension(code) else OperationType(code).name
