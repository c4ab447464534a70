"""Copies of models with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from nnhal.types import Model, Operand, OperandLifeTime, Subgraph

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


def without(items: tuple[T, ...], index: int, *instead: T) -> tuple[T, ...]:
    """Return the tuple with one item removed, or replaced by others."""
    return (*items[:index], *instead, *items[index + 1 :])
