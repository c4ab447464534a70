"""The dimensions of a model's operands in one execution, given those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.errors import HalError, general_failure
from nnhal.operations import DEFINITIONS, OperationContext
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import Operation, OperationType, Subgraph
from nnhal.types.layout import Dimensions, describe, fits, is_extension
from nnhal_devices.cpu_acc.branches import is_if


def execution_dimensions(model: ResolvedModel, inputs: Mapping[int, Dimensions]) -> dict[int, Dimensions]:
    """The dimensions of the main subgraph's operands, given those of its inputs by operand index.

    Dimensions that depend on the data that an extension's operation computes stay unknown. Raises GENERAL_FAILURE if
    inputs do not fit one another or an operation, or if results have other dimensions than the model says.
    """
    graph, constants = model.model.main, model.constants[0]
    found: dict[int, Dimensions] = {index: array.shape for index, array in constants.items()} | dict(inputs)
    depends_on_data: set[int] = set()
    for number, operation in enumerate(graph.operations):
        positions = operation.inputs
        if is_extension(operation.type) or is_if(operation) or not depends_on_data.isdisjoint(positions):
            declared = {index: graph.operands[index].dimensions for index in operation.outputs}
            found.update(declared)
            depends_on_data.update(index for index, dims in declared.items() if not dims or 0 in dims)
            continue
        context = OperationContext(
            OperationType(operation.type),
            describe_operation(model.model, number),
            [graph.operands[index] for index in positions],
            [graph.operands[index] for index in operation.outputs],
            lambda position, at=positions: constants.get(at[position]),  # type: ignore[misc]
            lambda position, at=positions: found.get(at[position], ()),  # type: ignore[misc]
            model.model.relax_computation_float32_to_float16,
        )
        found.update(_results(graph, operation, context))
    return found


def _results(graph: Subgraph, operation: Operation, context: OperationContext) -> dict[int, Dimensions]:
    """The dimensions of an operation's outputs, by operand.

    A contradiction that shows only now is a GENERAL_FAILURE of the execution: its arguments were valid.
    """
    try:
        results = DEFINITIONS[context.type].output_dimensions(context)
    except HalError as error:
        general_failure(error.message)
    for index, dimensions in zip(operation.outputs, results, strict=True):
        declared = graph.operands[index].dimensions
        if declared and not fits(dimensions, declared):
            general_failure(
                f"{context.place}: operand {index} has dimensions {list(dimensions)}, "
                f"the model says {describe(declared)}"
            )
    return dict(zip(operation.outputs, results, strict=True))
