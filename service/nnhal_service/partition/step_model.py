"""Make steps from groups of operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nnhal.resolved import describe_operation
from nnhal.slices import slice_of
from nnhal.types import Model, OperandLifeTime
from nnhal.types.layout import Dimensions
from nnhal_service.partition.candidate import PlacementError
from nnhal_service.partition.plan import Plan, Step


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
            what = ", ".join(describe_operation(self._model, number) for number in operations[:3])
            raise StepError(f"a step of {what} on {device} has no {'outputs' if inputs else 'inputs'}")
        downstream = tuple(operand for operand in outputs if operand in self._outputs and operand in passed_on)
        model = slice_of(self._model, self._dimensions, operations, inputs, outputs)
        return Step(device, model, tuple(operations), inputs, outputs, downstream, self._scope)

    def _of(self, lifetime: OperandLifeTime, operands: Collection[int]) -> list[int]:
        return [operand for operand in operands if self._model.main.operands[operand].lifetime == lifetime]
