"""Copies of models with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Subgraph
from nnhal.types.layout import byte_size

T = TypeVar("T")


def subgraphs(model: Model) -> tuple[Subgraph, ...]:
    """Return all subgraphs of a model; number 0 is main."""
    return (model.main, *model.referenced)


def with_graph(model: Model, graph: int, **changes: Any) -> Model:
    changed = replace(subgraphs(model)[graph], **changes)
    if graph == 0:
        return replace(model, main=changed)
    return replace(model, referenced=without(model.referenced, graph - 1, changed))


def with_main(model: Model, **changes: Any) -> Model:
    return with_graph(model, 0, **changes)


def with_operand(model: Model, index: int, graph: int = 0, **changes: Any) -> Model:
    operands = subgraphs(model)[graph].operands
    return with_graph(model, graph, operands=without(operands, index, replace(operands[index], **changes)))


def with_operation(model: Model, index: int, graph: int = 0, **changes: Any) -> Model:
    operations = subgraphs(model)[graph].operations
    return with_graph(model, graph, operations=without(operations, index, replace(operations[index], **changes)))


def with_unread(model: Model, operand: Operand) -> Model:
    """Return the model with an additional operand that nothing reads. A SUBGRAPH_INPUT is listed among the inputs."""
    inputs = model.main.input_indexes
    if operand.lifetime == OperandLifeTime.SUBGRAPH_INPUT:
        inputs = (*inputs, len(model.main.operands))
    return with_main(model, operands=(*model.main.operands, operand), input_indexes=inputs)


def with_other(model: Model, graph: int, index: int, operand: Operand) -> Model:
    return with_graph(model, graph, operands=without(subgraphs(model)[graph].operands, index, operand))


def with_further(model: Model, graph: int, *operands: Operand) -> Model:
    return with_graph(model, graph, operands=(*subgraphs(model)[graph].operands, *operands))


def with_copied_zeros(model: Model, operand: Operand) -> tuple[Model, Operand]:
    """Return the model with additional bytes of zero, and the operand as their constant. Its size must be known."""
    start = len(model.operand_values) + -len(model.operand_values) % 4
    size = byte_size(operand.type, operand.dimensions)
    values = model.operand_values.ljust(start, b"\0") + bytes(size)
    constant = replace(operand, lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, start, size))
    return replace(model, operand_values=values), constant


def place(graph: int, what: str) -> str:
    return f"{what} of referenced subgraph {graph - 1}" if graph else what


def without(items: tuple[T, ...], index: int, *instead: T) -> tuple[T, ...]:
    """Return the tuple with one item removed, or replaced by others."""
    return (*items[:index], *instead, *items[index + 1 :])
