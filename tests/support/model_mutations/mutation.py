"""A mutated model, and the ways to change one thing of one of its subgraphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Subgraph
from nnhal.types.layout import byte_size

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A model, and what was changed of it."""

    what: str
    model: Model


def subgraphs(model: Model) -> tuple[Subgraph, ...]:
    """All subgraphs, main first."""
    return (model.main, *model.referenced)


def with_graph(model: Model, number: int, **changes: Any) -> Model:
    """Other fields of one subgraph; 0 is main."""
    graph = replace(subgraphs(model)[number], **changes)
    if number == 0:
        return replace(model, main=graph)
    return replace(model, referenced=without(model.referenced, number - 1, graph))


def with_operand(model: Model, number: int, index: int, operand: Operand) -> Model:
    """Another operand of one subgraph."""
    return with_graph(model, number, operands=without(subgraphs(model)[number].operands, index, operand))


def with_operation(model: Model, number: int, index: int, **changes: Any) -> Model:
    """Other fields of one operation of one subgraph."""
    operations = subgraphs(model)[number].operations
    return with_graph(model, number, operations=without(operations, index, replace(operations[index], **changes)))


def with_further(model: Model, number: int, *operands: Operand) -> Model:
    """More operands of one subgraph."""
    return with_graph(model, number, operands=(*subgraphs(model)[number].operands, *operands))


def with_copied_zeros(model: Model, operand: Operand) -> tuple[Model, Operand]:
    """The operand as a constant of zeros, and the model with their bytes. Its size must be known."""
    start = len(model.operand_values) + -len(model.operand_values) % 4
    size = byte_size(operand.type, operand.dimensions)
    values = model.operand_values.ljust(start, b"\0") + bytes(size)
    location = DataLocation(0, start, size)
    return replace(model, operand_values=values), replace(
        operand, lifetime=OperandLifeTime.CONSTANT_COPY, location=location
    )


def without(items: tuple[T, ...], index: int, *instead: T) -> tuple[T, ...]:
    """A tuple with other items, or none, in place of one."""
    return (*items[:index], *instead, *items[index + 1 :])


def place(number: int, what: str) -> str:
    """Something of a subgraph, in words."""
    return f"{what} of referenced subgraph {number - 1}" if number else what
