"""The dimensions of a model's operands in one execution, where its inputs' dimensions are known."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, is_extension


def execution_dimensions(model: ResolvedModel, inputs: Mapping[int, Dimensions]) -> dict[int, Dimensions]:
    """The dimensions of the main subgraph's operands, given those of its inputs by operand index.

    They are open where they depend on what an extension's operation computes. Raises HalError where inputs do not fit
    one another or an operation.
    """
    graph, constants = model.model.main, model.constants[0]
    found: dict[int, Dimensions] = {index: array.shape for index, array in constants.items()} | dict(inputs)
    for number, operation in enumerate(graph.operations):
        if is_extension(operation.type):
            found.update((index, graph.operands[index].dimensions) for index in operation.outputs)
            continue
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
        try:
            results = DEFINITIONS[context.type].prepare(context)
        except UnknownYet:
            results = tuple(graph.operands[index].dimensions for index in operation.outputs)
        found.update(zip(operation.outputs, results, strict=True))
    return found
