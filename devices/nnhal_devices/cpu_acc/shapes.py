"""The dimensions of a model's operands in one execution, given those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.operations import DEFINITIONS, OperationContext
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, is_extension


def execution_dimensions(model: ResolvedModel, inputs: Mapping[int, Dimensions]) -> dict[int, Dimensions]:
    """The dimensions of the main subgraph's operands, given those of its inputs by operand index.

    Dimensions that depend on the data that an extension's operation computes stay unknown. Raises HalError if inputs do
    not fit one another or an operation.
    """
    graph, constants = model.model.main, model.constants[0]
    found: dict[int, Dimensions] = {index: array.shape for index, array in constants.items()} | dict(inputs)
    depends_on_data: set[int] = set()
    for number, operation in enumerate(graph.operations):
        positions = operation.inputs
        if is_extension(operation.type) or not depends_on_data.isdisjoint(positions):
            declared = {index: graph.operands[index].dimensions for index in operation.outputs}
            found.update(declared)
            depends_on_data.update(index for index, dims in declared.items() if not dims or 0 in dims)
            continue
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
