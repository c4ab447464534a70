"""Cut operations out of a model as a model of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Subgraph
from nnhal.types.layout import Dimensions

_COPY_ALIGNMENT = 4
_VALUES = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT, OperandLifeTime.SUBGRAPH_INPUT)


def slice_of(
    model: Model,
    dimensions: Sequence[Dimensions],
    operations: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> Model:
    """Return operations of main as a model, in this order. Its pools are the model's.

    ``dimensions`` are those of the operands of main as they are known, and become the slice's. ``inputs`` and
    ``outputs`` are operands of main, in the order that those of the slice have.
    """
    graph = model.main
    nodes = [graph.operations[number] for number in operations]
    used = tuple(dict.fromkeys(operand for node in nodes for operand in (*node.inputs, *node.outputs)))
    index = {operand: position for position, operand in enumerate(used)}
    lifetimes = {
        **dict.fromkeys(inputs, OperandLifeTime.SUBGRAPH_INPUT),
        **dict.fromkeys(outputs, OperandLifeTime.SUBGRAPH_OUTPUT),
    }
    refers = any(graph.operands[operand].lifetime == OperandLifeTime.SUBGRAPH for operand in used)
    values = bytearray()

    def placed(number: int) -> Operand:
        operand = graph.operands[number]
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY and not refers:
            return _constant(model, operand, values)
        if operand.lifetime not in _VALUES:
            return operand
        lifetime = lifetimes.get(number, OperandLifeTime.TEMPORARY_VARIABLE)
        return replace(operand, lifetime=lifetime, dimensions=dimensions[number])

    operands = tuple(placed(number) for number in used)
    cut = tuple(
        replace(node, inputs=tuple(index[i] for i in node.inputs), outputs=tuple(index[i] for i in node.outputs))
        for node in nodes
    )
    main = Subgraph(operands, cut, tuple(index[i] for i in inputs), tuple(index[i] for i in outputs))
    if refers:  # the constants of subgraphs lie in operand_values too, at fixed offsets
        return replace(model, main=main)
    return replace(model, main=main, referenced=(), operand_values=bytes(values))


def _constant(model: Model, operand: Operand, values: bytearray) -> Operand:
    start, length = operand.location.offset, operand.location.length
    values.extend(bytes(-len(values) % _COPY_ALIGNMENT))
    location = DataLocation(0, len(values), length)
    values.extend(model.operand_values[start : start + length])
    return replace(operand, location=location)
