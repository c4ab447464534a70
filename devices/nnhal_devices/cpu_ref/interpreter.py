"""Running a model operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import ErrorStatus, Operand, OperandLifeTime, Operation, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_devices.cpu_ref.kernels import KERNELS
from nnhal_devices.driver import Control

_NOTHING: Dimensions = ()


class Interpreter:
    """Runs the subgraphs of one model. Holds no state between runs, so it may be used from several threads."""

    def __init__(self, model: ResolvedModel) -> None:
        self._model = model

    def run(self, subgraph: int, inputs: Sequence[Array | None], control: Control) -> list[Array]:
        """The outputs of a subgraph for its inputs; None stands for an omitted input. Raises HalError."""
        graph = self._model.subgraphs[subgraph]
        values: dict[int, Array] = dict(self._model.constants[subgraph])
        values.update((index, v) for index, v in zip(graph.input_indexes, inputs, strict=True) if v is not None)
        last_use = _last_uses(graph.operations)
        for number, operation in enumerate(graph.operations):
            control.check()
            results = self._execute(subgraph, number, operation, values)
            values.update(zip(operation.outputs, results, strict=True))
            for index in last_use[number]:
                if graph.operands[index].lifetime == OperandLifeTime.TEMPORARY_VARIABLE:
                    del values[index]
        return [values[index] for index in graph.output_indexes]

    def _execute(self, subgraph: int, number: int, operation: Operation, values: dict[int, Array]) -> tuple[Array, ...]:
        graph = self._model.subgraphs[subgraph]
        place = describe_operation(operation, number, subgraph)
        present = [values.get(index) for index in operation.inputs]
        context = OperationContext(
            OperationType(operation.type),
            place,
            [
                _omitted(graph.operands[index]) if value is None else graph.operands[index]
                for index, value in zip(operation.inputs, present, strict=True)
            ],
            [graph.operands[index] for index in operation.outputs],
            present.__getitem__,
            lambda position: _NOTHING if (value := present[position]) is None else value.shape,
            self._model.model.relax_computation_float32_to_float16,
        )
        try:
            shapes = DEFINITIONS[context.type].prepare(context)
            with np.errstate(all="ignore"):  # float arithmetic answers with inf and nan, as the HAL's does
                results = KERNELS[context.type](context)
        except UnknownYet as omitted:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, f"{omitted} is omitted, expected a value") from omitted
        except (ValueError, IndexError, MemoryError) as error:
            raise HalError(ErrorStatus.GENERAL_FAILURE, f"{place}: {error}") from error
        for index, (result, shape) in enumerate(zip(results, shapes, strict=True)):
            element = ELEMENT_TYPES[context.outputs[index].type]
            if not fits_prepared(result.shape, shape) or result.dtype != element:
                context.fail(f"output {index} is {result.dtype} {result.shape}, expected {element} {shape}")
        return results


def fits_prepared(dimensions: Dimensions, prepared: Dimensions) -> bool:
    """Whether a result is as prepared; an axis that depends on the values was prepared as 0."""
    return len(dimensions) == len(prepared) and all(p in (0, d) for d, p in zip(dimensions, prepared, strict=True))


def _omitted(operand: Operand) -> Operand:
    return replace(operand, lifetime=OperandLifeTime.NO_VALUE)


def _last_uses(operations: Sequence[Operation]) -> list[set[int]]:
    last: dict[int, int] = {}
    for number, operation in enumerate(operations):
        for index in operation.inputs + operation.outputs:
            last[index] = number
    uses: list[set[int]] = [set() for _ in operations]
    for index, number in last.items():
        uses[number].add(index)
    return uses
