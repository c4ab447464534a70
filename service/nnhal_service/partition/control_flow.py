"""The subgraphs and values of IF and WHILE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.types import Model, Operand, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import fully_specified, is_extension, is_scalar

_REFERENCES: Mapping[int, slice] = {OperationType.IF: slice(1, 3), OperationType.WHILE: slice(0, 2)}
"""The inputs that refer to subgraphs: then and else, or condition and body."""


def is_control_flow(operation: Operation) -> bool:
    """Return whether an operation is IF or WHILE."""
    return operation.type in _REFERENCES


def referenced_by(operation: Operation, operands: Sequence[Operand]) -> tuple[int, ...]:
    """Return the referenced subgraphs of IF (then, else) or WHILE (condition, body); empty for other operations."""
    if not is_control_flow(operation):
        return ()
    return tuple(operands[index].location.offset for index in operation.inputs[_REFERENCES[operation.type]])


def arguments_of(operation: Operation) -> tuple[int, ...]:
    """Return the operands that IF or WHILE passes to its subgraphs."""
    return operation.inputs[_REFERENCES[operation.type].stop :]


def has_unknown_size(model: Model, operation: Operation) -> bool:
    """Return whether any input or output of IF or WHILE, or of one of its subgraphs, is of unknown size."""
    inner = [model.referenced[number] for number in referenced_by(operation, model.main.operands)]
    borders = [
        (model.main, (*operation.inputs, *operation.outputs)),
        *((graph, (*graph.input_indexes, *graph.output_indexes)) for graph in inner),
    ]
    return any(not _is_known(graph, index) for graph, indexes in borders for index in indexes)


def refers_to_unknown_rank(model: Model, operation: Operation) -> bool:
    """Return whether any input or output of the subgraphs of IF or WHILE is a tensor of unknown rank."""
    borders = [
        graph.operands[index]
        for graph in (model.referenced[number] for number in referenced_by(operation, model.main.operands))
        for index in (*graph.input_indexes, *graph.output_indexes)
    ]
    return any(not (o.dimensions or is_scalar(o.type) or is_extension(o.type)) for o in borders)


def as_main(model: Model, referenced: int) -> Model:
    """Return the model with a referenced subgraph as main, to ask devices about it and to make steps of it."""
    return replace(model, main=model.referenced[referenced])


def _is_known(graph: Subgraph, index: int) -> bool:
    operand = graph.operands[index]
    if operand.type == OperandType.SUBGRAPH:
        return True
    if is_extension(operand.type):
        return 0 not in operand.dimensions
    return fully_specified(operand.type, operand.dimensions)
