"""A mutated model, and helpers to make one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime
from nnhal.types.layout import byte_size
from tests.support.mutations import subgraphs, with_graph, without


@dataclass(frozen=True, slots=True)
class Mutation:
    """A model, and a description of what was changed."""

    what: str
    model: Model


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
