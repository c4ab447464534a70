"""Interpreting a model operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure
from nnhal.exhaustion import lack_of
from nnhal.extensions.tflite import number_of
from nnhal.kernels import KERNELS
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import ErrorStatus, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe, fits, is_extension
from nnhal_devices.cpu_ref import extension
from nnhal_devices.cpu_ref.control_flow import CONTROL_FLOW, ControlFlowCall
from nnhal_devices.cpu_ref.litert import LiteRtOperation
from nnhal_devices.driver import Control

_NOTHING: Dimensions = ()


class Interpreter:
    """Runs the subgraphs of one model. It holds no state between runs, so several threads may use it."""

    def __init__(self, model: ResolvedModel, alter: Alteration | None = None) -> None:
        self._model = model
        self._alter = alter
        self._last_uses = [_last_uses(graph.operations) for graph in model.subgraphs]
        self._litert = [self._litert_operations(number) for number in range(len(model.subgraphs))]

    def run(self, subgraph: int, inputs: Sequence[Array | None], control: Control) -> list[Array]:
        """Compute the outputs of a subgraph from its inputs; an omitted input is None. Raises HalError."""
        graph = self._model.subgraphs[subgraph]
        values: dict[int, Array] = dict(self._model.constants[subgraph])
        given = {index: v for index, v in zip(graph.input_indexes, inputs, strict=True) if v is not None}
        place = f"inputs of referenced subgraph {subgraph - 1}" if subgraph else "inputs"
        values.update(_declared(graph, given, place))
        for number, operation in enumerate(graph.operations):
            control.check()
            place = describe_operation(self._model.model, number, subgraph)
            present = [values.get(index) for index in operation.inputs]
            if operation.type in CONTROL_FLOW:
                results = CONTROL_FLOW[operation.type](self._call(graph, operation, place, present, control))
            elif number in self._litert[subgraph]:
                results = self._litert[subgraph][number].run(present[1:], control)
            elif is_extension(operation.type):
                results = extension.run(
                    self._model.model,
                    place,
                    [graph.operands[index] for index in operation.outputs],
                    present,
                    control,
                    None if self._alter is None else partial(self._alter.node_results, subgraph, number),
                )
            else:
                results = self._compute(graph, operation, place, present)
            if self._alter is not None:
                results = self._alter.results(subgraph, number, results)
            values.update(_declared(graph, dict(zip(operation.outputs, results, strict=True)), place))
            for index in self._last_uses[subgraph][number]:
                if graph.operands[index].lifetime == OperandLifeTime.TEMPORARY_VARIABLE:
                    del values[index]
        return [values[index] for index in graph.output_indexes]

    def _litert_operations(self, subgraph: int) -> dict[int, LiteRtOperation]:
        """The operations of nnhal.tflite in a subgraph, by number."""
        graph, constants = self._model.subgraphs[subgraph], self._model.constants[subgraph]
        return {
            number: LiteRtOperation(
                self._model.model,
                constants[operation.inputs[0]],
                [graph.operands[index] for index in operation.outputs],
                describe_operation(self._model.model, number, subgraph),
            )
            for number, operation in enumerate(graph.operations)
            if number_of(self._model.model, operation.type) is not None
        }

    def _call(
        self, graph: Subgraph, operation: Operation, place: str, present: Sequence[Array | None], control: Control
    ) -> ControlFlowCall:
        return ControlFlowCall(
            place,
            [graph.operands[index] for index in operation.inputs],
            present,
            len(operation.outputs),
            lambda subgraph, inputs: self.run(subgraph, inputs, control),
            control.loop_timeout_ns,
        )

    def _compute(
        self, graph: Subgraph, operation: Operation, place: str, present: Sequence[Array | None]
    ) -> tuple[Array, ...]:
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
        shapes = _prepared(context)
        try:
            with np.errstate(all="ignore"):  # float arithmetic returns inf and nan, as the HAL defines
                results = KERNELS[context.type](context)
        except MemoryError as error:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"{place}: {lack_of(error)}") from error
        except (ValueError, IndexError, ArithmeticError) as error:
            raise HalError(ErrorStatus.GENERAL_FAILURE, f"{place}: {error}") from error
        for index, (result, shape) in enumerate(zip(results, shapes, strict=True)):
            element = ELEMENT_TYPES[context.outputs[index].type]
            if not fits(result.shape, shape) or result.dtype != element:
                context.fail(f"output {index} is {result.dtype} {result.shape}, expected {element} {shape}")
        return results


def _prepared(context: OperationContext) -> tuple[Dimensions, ...]:
    """The dimensions of an operation's outputs, now that all values are known.

    A contradiction that shows only now is a GENERAL_FAILURE of the execution: its arguments were valid.
    """
    try:
        return DEFINITIONS[context.type].output_dimensions(context)
    except UnknownYet as omitted:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, f"{omitted} is omitted, expected a value") from omitted
    except HalError as error:
        raise HalError(ErrorStatus.GENERAL_FAILURE, error.message) from error


def _declared(graph: Subgraph, values: dict[int, Array], place: str) -> dict[int, Array]:
    """Check that values, by operand, have the dimensions that the model declares, and return them."""
    for index, value in values.items():
        declared = graph.operands[index].dimensions
        if declared and not fits(value.shape, declared):
            general_failure(
                f"{place}: operand {index} has dimensions {list(value.shape)}, the model says {describe(declared)}"
            )
    return values


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


class Alteration(Protocol):
    """Replacement of the results of operations, before others compute with them."""

    def results(self, subgraph: int, operation: int, results: Sequence[Array]) -> tuple[Array, ...]:
        """Return what takes the place of the results of an operation. Subgraph 0 is main."""
        ...

    def node_results(self, subgraph: int, operation: int, place: str, results: Sequence[Any]) -> tuple[Any, ...]:
        """Return what takes the place of the results of a node in the graph of an operation of nnhal.onnx.

        They are arrays, or what else ONNX has: lists, dictionaries and None. ``place`` is the node's first output. Of
        a node within another, as in the body of a Loop, that comes after the other's place and the name of its
        attribute: ``y/body/sum``.
        """
        ...
