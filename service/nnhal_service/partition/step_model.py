"""Make steps from groups of operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nnhal.resolved import describe_operation
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Subgraph
from nnhal.types.layout import Dimensions
from nnhal_service.partition.candidate import PlacementError
from nnhal_service.partition.plan import Plan, Step

_COPY_ALIGNMENT = 4
_WRITTEN = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT)


class StepError(PlacementError):
    """A group of operations cannot be a step on any device."""


def whole(model: Model, device: str) -> Step:
    """Return the only step of a plan that gives a device the whole model, unchanged."""
    graph = model.main
    return Step(device, model, tuple(range(len(graph.operations))), graph.input_indexes, graph.output_indexes)


def plan_of(model: Model, groups: Sequence[tuple[str, Sequence[int]]], dimensions: Sequence[Dimensions]) -> Plan:
    """Return the plan of groups in an order of execution; a single group is the model, unchanged.

    Raises StepError if a step has no inputs or no outputs.
    """
    if len(groups) == 1:
        return Plan((whole(model, groups[0][0]),))
    maker = StepMaker(model, dimensions)
    return Plan(tuple(maker.step(device, operations) for device, operations in groups))


class StepMaker:
    """Makes steps from groups of the operations of a model's main subgraph.

    ``dimensions`` are the propagated dimensions of its operands; ``scope`` goes into the steps.
    """

    def __init__(self, model: Model, dimensions: Sequence[Dimensions], scope: int = 0) -> None:
        self._model = model
        self._dimensions = dimensions
        self._scope = scope
        self._inputs = {operand: position for position, operand in enumerate(model.main.input_indexes)}
        self._outputs = {operand: position for position, operand in enumerate(model.main.output_indexes)}
        self._readers: dict[int, set[int]] = {}
        for number, operation in enumerate(model.main.operations):
            for operand in operation.inputs:
                self._readers.setdefault(operand, set()).add(number)

    def step(self, device: str, operations: Sequence[int]) -> Step:
        """Return the step of a group. Raises StepError if it would have no inputs or no outputs."""
        graph = self._model.main
        nodes = [graph.operations[number] for number in operations]
        used = dict.fromkeys(operand for node in nodes for operand in (*node.inputs, *node.outputs))
        here = {operand for node in nodes for operand in node.outputs}
        mine = set(operations)
        passed_on = {operand for operand in here if not self._readers.get(operand, mine) <= mine}
        taken = [operand for operand in used if operand not in here]
        inputs = (
            *sorted(self._inputs.keys() & taken, key=self._inputs.__getitem__),
            *self._of(OperandLifeTime.TEMPORARY_VARIABLE, taken),
            *self._of(OperandLifeTime.SUBGRAPH_OUTPUT, taken),
        )
        outputs = (
            *sorted(self._outputs.keys() & here, key=self._outputs.__getitem__),
            *sorted(self._of(OperandLifeTime.TEMPORARY_VARIABLE, passed_on)),
        )
        if not inputs or not outputs:
            what = ", ".join(describe_operation(graph.operations[number], number) for number in operations[:3])
            raise StepError(f"a step of {what} on {device} has no {'outputs' if inputs else 'inputs'}")
        downstream = tuple(operand for operand in outputs if operand in self._outputs and operand in passed_on)
        model = self._slice(operations, tuple(used), inputs, outputs)
        return Step(device, model, tuple(operations), inputs, outputs, downstream, self._scope)

    def _of(self, lifetime: OperandLifeTime, operands: Collection[int]) -> list[int]:
        return [operand for operand in operands if self._model.main.operands[operand].lifetime == lifetime]

    def _slice(
        self, operations: Sequence[int], used: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> Model:
        graph = self._model.main
        index = {operand: position for position, operand in enumerate(used)}
        lifetimes = {
            **dict.fromkeys(inputs, OperandLifeTime.SUBGRAPH_INPUT),
            **dict.fromkeys(outputs, OperandLifeTime.SUBGRAPH_OUTPUT),
        }
        refers = bool(self._of(OperandLifeTime.SUBGRAPH, used))
        values = bytearray()
        operands = tuple(
            self._constant(graph.operands[operand], values)
            if graph.operands[operand].lifetime == OperandLifeTime.CONSTANT_COPY and not refers
            else self._operand(operand, lifetimes.get(operand, OperandLifeTime.TEMPORARY_VARIABLE))
            for operand in used
        )
        nodes = tuple(
            replace(node, inputs=tuple(index[i] for i in node.inputs), outputs=tuple(index[i] for i in node.outputs))
            for node in (graph.operations[number] for number in operations)
        )
        main = Subgraph(operands, nodes, tuple(index[i] for i in inputs), tuple(index[i] for i in outputs))
        if refers:  # the constants of subgraphs lie in operand_values too, at fixed offsets
            return replace(self._model, main=main)
        return replace(self._model, main=main, referenced=(), operand_values=bytes(values))

    def _constant(self, operand: Operand, values: bytearray) -> Operand:
        start, length = operand.location.offset, operand.location.length
        values.extend(bytes(-len(values) % _COPY_ALIGNMENT))
        location = DataLocation(0, len(values), length)
        values.extend(self._model.operand_values[start : start + length])
        return replace(operand, location=location)

    def _operand(self, number: int, lifetime: OperandLifeTime) -> Operand:
        operand = self._model.main.operands[number]
        if operand.lifetime not in (*_WRITTEN, OperandLifeTime.SUBGRAPH_INPUT):
            return operand
        return replace(operand, lifetime=lifetime, dimensions=self._dimensions[number])
