"""Choose a device for each operation by NNAPI's rule.

The best device for an operation is the one with the least cost among those that support it. On a tie the earlier device
is chosen, except that the CPU wins ties. A pin overrides the cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import (
    Capabilities,
    ExecutionPreference,
    Model,
    OperandType,
    Operation,
    OperationType,
    PerformanceInfo,
    Subgraph,
)
from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.control_flow import referenced_by
from nnhal_service.partition.pins import Pin
from nnhal_service.partition.support import supporting, without_unsized_control_flow


def best_devices(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    pins: Sequence[Pin],
    cpu: str,
    preference: ExecutionPreference,
    units: Sequence[Sequence[int]] = (),
) -> tuple[str, ...]:
    """Return the best device for each operation of main. A pin need not match anything.

    ``names`` are the user's node names of each operation. All operations of a unit go to the device that is the best
    for its first one, of those that take all. Raises PlacementError if no device takes an operation.
    """
    costs = {c.name: Performance(model, c.capabilities, preference) for c in candidates}
    able = supporting(model, names, without_unsized_control_flow(model, candidates, cpu), pins)
    chosen = {unit[0]: _common(able, unit) for unit in units}
    first = {number: unit[0] for unit in units for number in unit}

    def best(number: int) -> str:
        operation = model.main.operations[number]
        those = chosen.get(number, able[number])
        return min(those, key=lambda c: (costs[c.name].cost(operation, model.main), c.name != cpu)).name

    return tuple(best(first.get(number, number)) for number in range(len(able)))


def _common(able: Sequence[Sequence[Candidate]], unit: Sequence[int]) -> list[Candidate]:
    names = set.intersection(*({candidate.name for candidate in able[number]} for number in unit))
    return [candidate for candidate in able[unit[0]] if candidate.name in names]


class Performance:
    """A device's costs of a model's operations relative to the CPU: power with LOW_POWER, otherwise time."""

    def __init__(self, model: Model, capabilities: Capabilities, preference: ExecutionPreference) -> None:
        self._model = model
        self._capabilities = capabilities
        self._low_power = preference == ExecutionPreference.LOW_POWER
        self._subgraphs: dict[int, float] = {}

    def cost(self, operation: Operation, graph: Subgraph) -> float:
        """Return the cost of an operation of a graph. IF counts half of both branches, WHILE one iteration."""
        inner = [self._subgraph(number) for number in referenced_by(operation, graph.operands)]
        if operation.type == OperationType.IF:
            return self._figure(self._capabilities.if_performance) + sum(inner) / 2
        if operation.type == OperationType.WHILE:
            return self._figure(self._capabilities.while_performance) + sum(inner)
        return self._figure(self._info(operation, graph))

    def _subgraph(self, number: int) -> float:
        """Return the sum over a referenced subgraph. It is kept, since several operations may refer to the subgraph."""
        if number not in self._subgraphs:
            graph = self._model.referenced[number]
            self._subgraphs[number] = sum(self.cost(operation, graph) for operation in graph.operations)
        return self._subgraphs[number]

    def _info(self, operation: Operation, graph: Subgraph) -> PerformanceInfo:
        code = graph.operands[operation.inputs[0]].type if operation.inputs else OperandType.FLOAT32
        if self._model.relax_computation_float32_to_float16:
            if code == OperandType.FLOAT32:
                return self._capabilities.relaxed_float32_to_float16_scalar
            if code == OperandType.TENSOR_FLOAT32:
                return self._capabilities.relaxed_float32_to_float16_tensor
        return self._capabilities.performance_of(code)

    def _figure(self, info: PerformanceInfo) -> float:
        return info.power_usage if self._low_power else info.exec_time
