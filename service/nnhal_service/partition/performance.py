"""The cost of an operation by NNAPI's rule: the device's figure for the type of its first input."""

from __future__ import annotations

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
from nnhal_service.partition.control_flow import referenced_by


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
