"""Values that are read before they are written, written twice or never: VM-01, VM-08 and VM-13 to VM-15."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnhal.types import Model, Operand, OperandLifeTime, Operation, Subgraph
from nnhal.types.memory import NOWHERE
from tests.support.model_mutations.exceptions import dispensable, output_may_be_missing
from tests.support.model_mutations.mutation import Mutation, place, with_further
from tests.support.mutations import subgraphs, with_graph, with_operation, without


def readers_before_writers(model: Model) -> Iterator[Mutation]:
    """VM-01: a reader before its writer, or a writer after its reader."""
    for number, graph in enumerate(subgraphs(model)):
        for writer, reader in _flows(graph):
            operations = list(graph.operations)
            operations.insert(writer, operations.pop(reader))
            yield _mutation(model, number, operations, f"operation {reader} comes before operation {writer}")
            operations = list(graph.operations)
            operations.insert(reader, operations.pop(writer))
            yield _mutation(model, number, operations, f"operation {writer} comes after operation {reader}")


def second_writers(model: Model) -> Iterator[Mutation]:
    """VM-08: a copy of an operation writes one of its outputs again."""
    for number, graph in enumerate(subgraphs(model)):
        for operation in graph.operations:
            for kept in operation.outputs:
                end = len(graph.operands)
                results = [_temporary(graph.operands[index]) for index in operation.outputs if index != kept]
                fresh = iter(range(end, end + len(results)))
                outputs = tuple(index if index == kept else next(fresh) for index in operation.outputs)
                operations = [*graph.operations, replace(operation, outputs=outputs)]
                changed = with_further(model, number, *results)
                yield _mutation(changed, number, operations, f"operand {kept} is written twice")


def diverted_results(model: Model) -> Iterator[Mutation]:
    """VM-13: an operand that is read has no writer, since the operation writes a new operand instead."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            for at, output in enumerate(operation.outputs):
                if _read(graph, output):
                    changed = with_further(model, number, _temporary(graph.operands[output]))
                    outputs = without(operation.outputs, at, len(graph.operands))
                    changed = with_operation(changed, index, number, outputs=outputs)
                    yield Mutation(place(number, f"operand {output} is not written"), changed)


def missing_operands(model: Model) -> Iterator[Mutation]:
    """VM-14: an operand that is read is removed; higher indexes stay, and so mean another operand or none."""
    for number, graph in enumerate(subgraphs(model)):
        for index in range(len(graph.operands)):
            if _read(graph, index) and not _can_do_without(graph, index):
                changed = with_graph(
                    model,
                    number,
                    operands=without(graph.operands, index),
                    operations=tuple(
                        replace(o, inputs=_less(o.inputs, index), outputs=_less(o.outputs, index))
                        for o in graph.operations
                    ),
                    input_indexes=_less(graph.input_indexes, index),
                    output_indexes=_less(graph.output_indexes, index),
                )
                yield Mutation(place(number, f"operand {index} is missing"), changed)


def missing_operations(model: Model) -> Iterator[Mutation]:
    """VM-15: an operation whose results are needed is removed."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            if any(_read(graph, output) or output in graph.output_indexes for output in operation.outputs):
                yield _mutation(model, number, without(graph.operations, index), f"operation {index} is missing")


def _flows(graph: Subgraph) -> Iterator[tuple[int, int]]:
    """Yield the pairs of operations of which the second reads what the first writes."""
    for writer, operation in enumerate(graph.operations):
        for reader in range(writer + 1, len(graph.operations)):
            if set(operation.outputs) & set(graph.operations[reader].inputs):
                yield writer, reader


def _can_do_without(graph: Subgraph, index: int) -> bool:
    """Return whether the graph may still be valid without an operand, so that VM-14 does not apply.

    If nothing uses the last operand, it makes up for the missing one. The last operand itself may be dispensable.
    """
    if any(index in operation.outputs and output_may_be_missing(operation) for operation in graph.operations):
        return True
    last = len(graph.operands) - 1
    if index < last:
        return not any(last in (*operation.inputs, *operation.outputs) for operation in graph.operations)
    return all(
        all(dispensable(operation, at) for at, used in enumerate(operation.inputs) if used == index)
        for operation in graph.operations
    )


def _read(graph: Subgraph, index: int) -> bool:
    return any(index in operation.inputs for operation in graph.operations)


def _temporary(operand: Operand) -> Operand:
    return replace(operand, lifetime=OperandLifeTime.TEMPORARY_VARIABLE, location=NOWHERE)


def _less(indexes: tuple[int, ...], index: int) -> tuple[int, ...]:
    return tuple(i for i in indexes if i != index)


def _mutation(model: Model, number: int, operations: list[Operation] | tuple[Operation, ...], what: str) -> Mutation:
    return Mutation(place(number, what), with_graph(model, number, operations=tuple(operations)))
