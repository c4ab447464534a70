"""The dimensions of a model's operands in one execution, where its inputs' dimensions are known."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.operations import DEFINITIONS, OperationContext
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


def execution_dimensions(model: ResolvedModel, inputs: Mapping[int, Dimensions]) -> dict[int, Dimensions]:
    """The dimensions of the main subgraph's operands, given those of its inputs by operand index.

    Raises HalError where inputs do not fit one another or an operation.
    """
    graph, constants = model.model.main, model.constants[0]
    found: dict[int, Dimensions] = {index: array.shape for index, array in constants.items()} | dict(inputs)
    for number, operation in enumerate(graph.operations):
        positions = operation.inputs
        context = OperationContext(
            OperationType(operation.type),
            describe_operation(operation, number),
            [graph.operands[index] for index in positions],
            [graph.operands[index] for index in operation.outputs],
            lambda position, at=positions: constants.get(at[position]),  # type: ignore[misc]
            lambda position, at=positions: found.get(at[position], ()),  # type: ignore[misc]
            model.model.relax_computation_float32_to_float16,
        )
        results = DEFINITIONS[context.type].prepare(context)
        found.update(zip(operation.outputs, results, strict=True))
    return found
