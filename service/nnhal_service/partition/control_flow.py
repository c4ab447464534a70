"""What IF and WHILE refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.types import Model, Operand, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import fully_specified, is_extension, is_scalar

_REFERENCES: Mapping[int, slice] = {OperationType.IF: slice(1, 3), OperationType.WHILE: slice(0, 2)}
"""Which inputs refer to subgraphs: then and else, condition and body."""


def is_control_flow(operation: Operation) -> bool:
    """Whether an operation is IF or WHILE."""
    return operation.type in _REFERENCES


def referenced_by(operation: Operation, operands: Sequence[Operand]) -> tuple[int, ...]:
    """The referenced subgraphs of IF (then, else) or WHILE (condition, body); none of other operations."""
    if not is_control_flow(operation):
        return ()
    return tuple(operands[index].location.offset for index in operation.inputs[_REFERENCES[operation.type]])


def arguments_of(operation: Operation) -> tuple[int, ...]:
    """What IF or WHILE hands to its subgraphs."""
    return operation.inputs[_REFERENCES[operation.type].stop :]


def has_unknown_size(model: Model, operation: Operation) -> bool:
    """Whether IF or WHILE reads or writes something of unknown size, or one of its subgraphs does at its border."""
    inner = [model.referenced[number] for number in referenced_by(operation, model.main.operands)]
    borders = [
        (model.main, (*operation.inputs, *operation.outputs)),
        *((graph, (*graph.input_indexes, *graph.output_indexes)) for graph in inner),
    ]
    return any(not _is_known(graph, index) for graph, indexes in borders for index in indexes)


def refers_to_unknown_rank(model: Model, operation: Operation) -> bool:
    """Whether IF or WHILE refers to a subgraph that takes or gives a tensor of unknown rank."""
    borders = [
        graph.operands[index]
        for graph in (model.referenced[number] for number in referenced_by(operation, model.main.operands))
        for index in (*graph.input_indexes, *graph.output_indexes)
    ]
    return any(not (o.dimensions or is_scalar(o.type) or is_extension(o.type)) for o in borders)


def as_main(model: Model, referenced: int) -> Model:
    """The model whose main subgraph is a referenced one: what to ask devices about, and to take steps from."""
    return replace(model, main=model.referenced[referenced])


def _is_known(graph: Subgraph, index: int) -> bool:
    operand = graph.operands[index]
    if operand.type == OperandType.SUBGRAPH:
        return True
    if is_extension(operand.type):
        return 0 not in operand.dimensions
    return fully_specified(operand.type, operand.dimensions)
