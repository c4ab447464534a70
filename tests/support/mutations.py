"""Models that differ in one thing from a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from nnhal.types import Model, Operand, OperandLifeTime, Subgraph

T = TypeVar("T")


def subgraphs(model: Model) -> tuple[Subgraph, ...]:
    """All subgraphs of a model. Main is number 0."""
    return (model.main, *model.referenced)


def with_graph(model: Model, graph: int, **changes: Any) -> Model:
    """Other fields of one subgraph."""
    changed = replace(subgraphs(model)[graph], **changes)
    if graph == 0:
        return replace(model, main=changed)
    return replace(model, referenced=without(model.referenced, graph - 1, changed))


def with_main(model: Model, **changes: Any) -> Model:
    """Other fields of the main subgraph."""
    return with_graph(model, 0, **changes)


def with_operand(model: Model, index: int, graph: int = 0, **changes: Any) -> Model:
    """Other fields of one operand."""
    operands = subgraphs(model)[graph].operands
    return with_graph(model, graph, operands=without(operands, index, replace(operands[index], **changes)))


def with_operation(model: Model, index: int, graph: int = 0, **changes: Any) -> Model:
    """Other fields of one operation."""
    operations = subgraphs(model)[graph].operations
    return with_graph(model, graph, operations=without(operations, index, replace(operations[index], **changes)))


def with_unread(model: Model, operand: Operand) -> Model:
    """One operand of main more, which no operation reads. One of lifetime SUBGRAPH_INPUT is listed as input."""
    inputs = model.main.input_indexes
    if operand.lifetime == OperandLifeTime.SUBGRAPH_INPUT:
        inputs = (*inputs, len(model.main.operands))
    return with_main(model, operands=(*model.main.operands, operand), input_indexes=inputs)


def without(items: tuple[T, ...], index: int, *instead: T) -> tuple[T, ...]:
    """A tuple with other items, or none, in place of one."""
    return (*items[:index], *instead, *items[index + 1 :])
