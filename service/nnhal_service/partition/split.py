"""Growing steps from an assignment: NNAPI's rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Subgraph
from nnhal.types.layout import Dimensions
from nnhal_service.partition.plan import Plan, Step

_COPY_ALIGNMENT = 4
_WRITTEN = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT)


def split(model: Model, devices: Sequence[str], dimensions: Sequence[Dimensions]) -> Plan:
    """The plan of an assignment; ``devices`` of each operation, ``dimensions`` of each operand as far as known."""
    groups = _grow(model.main, devices)
    return Plan(tuple(_step(model, device, operations, dimensions) for device, operations in groups))


def _grow(graph: Subgraph, devices: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Steps grown greedily: a step takes every operation of its device that is ready, and those that it makes ready."""
    producers = {operand: n for n, operation in enumerate(graph.operations) for operand in operation.outputs}
    missing = [{producers[i] for i in operation.inputs if i in producers} for operation in graph.operations]
    consumers: list[list[int]] = [[] for _ in graph.operations]
    for number, needs in enumerate(missing):
        for producer in sorted(needs):
            consumers[producer].append(number)
    ready: dict[str, deque[int]] = {device: deque() for device in dict.fromkeys(devices)}
    for number, needs in enumerate(missing):
        if not needs:
            ready[devices[number]].append(number)
    steps: list[tuple[str, tuple[int, ...]]] = []
    while any(ready.values()):
        device = next(name for name in reversed(ready) if ready[name])
        queue, taken = ready[device], []
        while queue:
            number = queue.popleft()
            taken.append(number)
            for consumer in consumers[number]:
                missing[consumer].discard(number)
                if not missing[consumer]:
                    ready[devices[consumer]].append(consumer)
        steps.append((device, tuple(taken)))
    return steps


def _step(model: Model, device: str, operations: tuple[int, ...], dimensions: Sequence[Dimensions]) -> Step:
    graph = model.main
    mine = set(operations)
    here = {operand for n in operations for operand in graph.operations[n].outputs}
    elsewhere = {
        operand for n, operation in enumerate(graph.operations) if n not in mine for operand in operation.inputs
    }
    used = dict.fromkeys(
        operand for n in operations for operand in (*graph.operations[n].inputs, *graph.operations[n].outputs)
    )
    read = [operand for operand in used if operand not in here]
    outer = [operand for operand in read if graph.operands[operand].lifetime in _WRITTEN]
    inputs = (
        *(operand for operand in graph.input_indexes if operand in used),
        *(operand for operand in outer if graph.operands[operand].lifetime == OperandLifeTime.TEMPORARY_VARIABLE),
        *(operand for operand in outer if graph.operands[operand].lifetime == OperandLifeTime.SUBGRAPH_OUTPUT),
    )
    outputs = (
        *(operand for operand in graph.output_indexes if operand in here),
        *sorted(
            operand
            for operand in here & elsewhere
            if graph.operands[operand].lifetime == OperandLifeTime.TEMPORARY_VARIABLE
        ),
    )
    index = {operand: position for position, operand in enumerate(used)}
    values = bytearray()
    operands = tuple(_operand(model, operand, inputs, outputs, dimensions, values) for operand in used)
    return Step(
        device,
        replace(
            model,
            main=Subgraph(
                operands,
                tuple(
                    replace(
                        graph.operations[n],
                        inputs=tuple(index[i] for i in graph.operations[n].inputs),
                        outputs=tuple(index[i] for i in graph.operations[n].outputs),
                    )
                    for n in operations
                ),
                tuple(index[operand] for operand in inputs),
                tuple(index[operand] for operand in outputs),
            ),
            operand_values=bytes(values) if not model.referenced else model.operand_values,
        ),
        operations,
        inputs,
        outputs,
    )


def _operand(
    model: Model,
    number: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
    dimensions: Sequence[Dimensions],
    values: bytearray,
) -> Operand:
    operand = model.main.operands[number]
    if operand.lifetime == OperandLifeTime.CONSTANT_COPY and not model.referenced:
        start, length = operand.location.offset, operand.location.length
        values.extend(bytes(-len(values) % _COPY_ALIGNMENT))
        location = DataLocation(0, len(values), length)
        values.extend(model.operand_values[start : start + length])
        return replace(operand, location=location)
    if operand.lifetime not in (*_WRITTEN, OperandLifeTime.SUBGRAPH_INPUT):
        return operand
    lifetime = (
        OperandLifeTime.SUBGRAPH_INPUT
        if number in inputs
        else OperandLifeTime.SUBGRAPH_OUTPUT
        if number in outputs
        else OperandLifeTime.TEMPORARY_VARIABLE
    )
    return replace(operand, lifetime=lifetime, dimensions=dimensions[number])
