"""Operations with other codes, and with more, fewer or impossible operands: VM-10 to VM-12 and VM-16 to VM-19."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType
from tests.support.model_mutations.exceptions import dispensable, may_take_an_integer_more
from tests.support.model_mutations.mutation import Mutation, place, with_further
from tests.support.mutations import subgraphs, with_graph, with_operation, without


def no_operations(model: Model) -> Iterator[Mutation]:
    """VM-10: a code that is not an operation's."""
    for number, index, _ in _operations(model):
        for code in (-1, max(OperationType) + 1):
            yield _mutation(with_operation(model, index, number, type=code), number, index, f"has code {code}")


def inputs_past_the_last(model: Model) -> Iterator[Mutation]:
    """VM-11: an input with an index beyond the last operand."""
    for number, index, operation in _operations(model):
        end = len(subgraphs(model)[number].operands)
        for at in range(len(operation.inputs)):
            changed = with_operation(model, index, number, inputs=without(operation.inputs, at, end))
            yield _mutation(changed, number, index, f"reads operand {end} as input {at}")


def outputs_past_the_last(model: Model) -> Iterator[Mutation]:
    """VM-12: an output with an index beyond the last operand."""
    for number, index, operation in _operations(model):
        end = len(subgraphs(model)[number].operands)
        for at in range(len(operation.outputs)):
            changed = with_operation(model, index, number, outputs=without(operation.outputs, at, end))
            yield _mutation(changed, number, index, f"writes operand {end} as output {at}")


def inputs_removed(model: Model) -> Iterator[Mutation]:
    """VM-16: one input too few."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.inputs)):
            if not dispensable(operation, at):
                yield _without_input(model, number, index, at)


def dispensable_inputs_removed(model: Model) -> Iterator[Mutation]:
    """The exceptions of VM-16: the operation is also valid without the input."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.inputs)):
            if dispensable(operation, at):
                yield _without_input(model, number, index, at)


def outputs_removed(model: Model) -> Iterator[Mutation]:
    """VM-17: one output too few, so that no operation writes its operand."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.outputs)):
            changed = with_operation(model, index, number, outputs=without(operation.outputs, at))
            yield _mutation(changed, number, index, f"has lost output {at}")


def inputs_added(model: Model) -> Iterator[Mutation]:
    """VM-18: one input too many, an INT32 that is an input of the subgraph."""
    further = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    for number, index, operation in _operations(model):
        if not may_take_an_integer_more(operation):
            graph = subgraphs(model)[number]
            end = len(graph.operands)
            changed = with_graph(
                with_further(model, number, further), number, input_indexes=(*graph.input_indexes, end)
            )
            changed = with_operation(changed, index, number, inputs=(*operation.inputs, end))
            yield _mutation(changed, number, index, "has one input more")


def outputs_added(model: Model) -> Iterator[Mutation]:
    """VM-19: one output too many, an INT32 that is an output of the subgraph."""
    further = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    for number, index, operation in _operations(model):
        graph = subgraphs(model)[number]
        end = len(graph.operands)
        changed = with_graph(with_further(model, number, further), number, output_indexes=(*graph.output_indexes, end))
        changed = with_operation(changed, index, number, outputs=(*operation.outputs, end))
        yield _mutation(changed, number, index, "has one output more")


def _without_input(model: Model, number: int, index: int, at: int) -> Mutation:
    operation = subgraphs(model)[number].operations[index]
    changed = with_operation(model, index, number, inputs=without(operation.inputs, at))
    return _mutation(changed, number, index, f"has lost input {at} of {len(operation.inputs)}")


def _operations(model: Model) -> Iterator[tuple[int, int, Operation]]:
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            yield number, index, operation


def _mutation(model: Model, number: int, index: int, what: str) -> Mutation:
    return Mutation(f"{place(number, f'operation {index}')} {what}", model)
