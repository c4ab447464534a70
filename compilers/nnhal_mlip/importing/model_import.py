"""From a model of the HAL to a flow graph.

An operation that the flow cannot have becomes an opaque node with the operator ``hal.NAME``, which only the host has:
so the others are seen between what is around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions import type_in_words
from nnhal.extensions.onnx import ELEMENT_TYPES, RUN, number_of
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support import Unsupported
from nnhal.types import Operation, OperationType
from nnhal.types.layout import Dimensions, combine, is_extension
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue, SourceNode
from nnhal_mlip.importing.conditions import condition
from nnhal_mlip.importing.hal_operation import (
    HalOperation,
    MessageOperand,
    MessageReader,
    flow_value,
    scales_of,
    signed,
)
from nnhal_mlip.importing.host_operations import host_evaluation
from nnhal_mlip.importing.rules import IMPORT_RULES, ImportRule

_OPAQUE = "hal."
_KNOWN_ONES = f"one of the {len(IMPORT_RULES)} operations that mlip's README lists"
_HINT = "place it on a CPU or GPU device"


@dataclass(frozen=True, slots=True)
class ImportedHalModel:
    """A model as a flow graph. The source of a node has the number of its operation."""

    graph: FlowGraph
    inputs: tuple[str, ...]
    """The value of each input of the model."""
    outputs: tuple[str, ...]
    """The name that the graph has for each output of the model."""
    refusals: Mapping[int, Unsupported]
    """Why operations have become opaque nodes."""


def is_opaque(node: FlowNode) -> bool:
    """Return whether a node stands for an operation that the flow cannot have."""
    return node.operator.startswith(_OPAQUE)


class _Importable(NamedTuple):
    """An operation that the flow can have."""

    rule: ImportRule
    context: OperationContext


def import_hal_model(
    model: ResolvedModel,
    beyond: bool = True,
    sources: Sequence[tuple[SourceNode, ...]] = (),
    read_message: MessageReader | None = None,
) -> ImportedHalModel:
    """Import the main subgraph of a model.

    ``beyond`` is as in ``FlowOptions``. ``sources`` are the nodes of the user's model that each operation stands for;
    by default the operations are the user's. ``read_message`` imports operations of nnhal.onnx; without it
    the flow cannot have them. Raises FlowError if an operation's attributes contradict its operands.
    """
    return _ModelImport(model, beyond, sources or _own_sources(model), read_message).run()


class _ModelImport:
    def __init__(
        self,
        model: ResolvedModel,
        beyond: bool,
        sources: Sequence[tuple[SourceNode, ...]],
        read_message: MessageReader | None,
    ) -> None:
        self._model = model
        self._main = model.model.main
        self._beyond = beyond
        self._sources = sources
        self._read_message = read_message
        self._builder = FlowGraphBuilder()
        self._known: list[Dimensions] = [operand.dimensions for operand in self._main.operands]
        self._values: dict[int, str] = {}
        """The value that holds each operand."""
        self._names = _unique_names(model)
        self._refusals: dict[int, Unsupported] = {}

    def run(self) -> ImportedHalModel:
        for index in self._main.input_indexes:
            value = self._type(index)
            self._values[index] = self._builder.input(self._names[index], *value[:3])
        for number, operation in enumerate(self._main.operations):
            if self._read_message is not None and number_of(self._model.model, operation.type) == RUN:
                self._add_message(number, operation, self._read_message)
                continue
            found = self._importable(number, operation)
            if isinstance(found, Unsupported):
                self._add_opaque(number, operation, found)
            else:
                self._add(number, operation, found)
        outputs = {self._names[index]: self._values[index] for index in self._main.output_indexes}
        inputs = tuple(self._values[index] for index in self._main.input_indexes)
        names = tuple(self._names[index] for index in self._main.output_indexes)
        return ImportedHalModel(self._builder.build(outputs), inputs, names, self._refusals)

    def _importable(self, number: int, operation: Operation) -> _Importable | Unsupported:
        """Return what is needed to import an operation, or why that is not possible. Notes its outputs' dimensions."""
        if is_extension(operation.type):
            return Unsupported(
                "OP", f"operation {type_in_words(self._model.model, operation.type)}", _KNOWN_ONES, _HINT
            )
        if operation.type not in DEFINITIONS:
            return Unsupported("OP", _kind(operation), _KNOWN_ONES, _HINT)
        context = self._model.context(0, number, tuple(self._known))
        try:
            for index, found in zip(operation.outputs, DEFINITIONS[context.type].prepare(context), strict=True):
                self._known[index] = combine(self._known[index], found) or self._known[index]
        except HalError as error:
            return Unsupported("OP", error.message, "a valid operation", "make its operands fit one another")
        except UnknownYet:
            pass
        rule = IMPORT_RULES.get(operation.type)
        if rule is None:
            return Unsupported("OP", _kind(operation), _KNOWN_ONES, _HINT)
        answer = condition(context, rule, [self._known[index] for index in operation.outputs])
        return answer if isinstance(answer, Unsupported) else _Importable(rule, context)

    def _add(self, number: int, operation: Operation, found: _Importable) -> None:
        before = self._builder.count
        made = found.rule.emit(
            HalOperation(
                found.context,
                self._names[operation.outputs[0]],
                self._sources[number],
                self._builder,
                lambda position: self._value(operation.inputs[position]),
                tuple(map(self._type, operation.outputs)),
                self._beyond,
            )
        )
        results = (made,) if isinstance(made, str) else made
        for index, value in zip(operation.outputs, results, strict=True):
            self._values[index] = self._builder.renamed(value, self._names[index], before)

    def _add_message(self, number: int, operation: Operation, read: MessageReader) -> None:
        """Add what an operation of nnhal.onnx stands for: a node of the user's, or several that the host computes."""
        message, *given = operation.inputs
        main, constants = self._main, self._model.constants[0]
        inputs = [
            MessageOperand(
                main.operands[index],
                self._names[index],
                self._type(index),
                self._values.get(index),
                self._elements(index) if index in constants else None,
            )
            for index in given
        ]
        outputs = [MessageOperand(main.operands[i], self._names[i], self._type(i)) for i in operation.outputs]
        made = read(constants[message].tobytes(), inputs, outputs, self._builder, self._sources[number])
        self._values.update(zip(operation.outputs, made, strict=True))

    def _type(self, index: int) -> FlowValue:
        value, own = flow_value(self._main.operands[index], self._known[index]), self._own_element(index)
        return value if own is None else value._replace(element_type=own)

    def _own_element(self, index: int) -> np.dtype[np.generic] | None:
        """The type of the elements of an operand of nnhal.onnx."""
        code = self._main.operands[index].type
        number = number_of(self._model.model, code) if is_extension(code) else None
        return None if number is None else ELEMENT_TYPES.get(number)

    def _elements(self, index: int) -> Array:
        """A constant with the elements of its type: those of an extension's types are stored as bytes."""
        values, own = self._model.constants[0][index], self._own_element(index)
        return values if own is None else values.view(own).reshape(self._main.operands[index].dimensions)

    def _add_opaque(self, number: int, operation: Operation, refusal: Unsupported) -> None:
        """Add a node that stands for an operation, with those inputs that are computed or fed."""
        self._refusals[number] = refusal
        constants = self._model.constants[0]
        computed = [
            position
            for position, index in enumerate(operation.inputs)
            if index in self._values and index not in constants
        ]
        known = not is_extension(operation.type) and operation.type in DEFINITIONS
        context = self._model.context(0, number, tuple(self._known)) if known else None
        results = [self._type(index) for index in operation.outputs]
        first = self._builder.add(
            f"{_OPAQUE}{_kind(operation)}",
            [self._values[operation.inputs[position]] for position in computed],
            sources=self._sources[number],
            evaluate=host_evaluation(context, computed, describe_operation(self._model.model, number)),
            results=results,
            names=[self._names[index] for index in operation.outputs],
        )
        self._values.update(zip(operation.outputs, self._builder.outputs_of(first), strict=True))

    def _value(self, index: int) -> str:
        """The value of an operand. A constant is added when it is first read."""
        if index not in self._values:
            operand = self._main.operands[index]
            values = signed(operand, self._model.constants[0][index])
            self._values[index] = self._builder.constant(self._names[index], values, *scales_of(operand))
        return self._values[index]


def _own_sources(model: ResolvedModel) -> list[tuple[SourceNode, ...]]:
    """Each operation by its number, and the user's name of its first output."""
    found: list[tuple[SourceNode, ...]] = []
    for number, operation in enumerate(model.model.main.operations):
        name = model.names.get(operation.outputs[0]) if operation.outputs else None
        found.append((SourceNode(number, name or describe_operation(model.model, number), _kind(operation)),))
    return found


def _unique_names(model: ResolvedModel) -> list[str]:
    """The users' names of all operands, or such that tell the input, the operation or the operand by its number."""
    main = model.model.main
    described = {index: f"input {position}" for position, index in enumerate(main.input_indexes)}
    for number, operation in enumerate(main.operations):
        described |= dict.fromkeys(operation.outputs, describe_operation(model.model, number))
    taken: set[str] = set()
    names = []
    for index in range(len(main.operands)):
        name = model.names.get(index) or described.get(index, f"operand {index}")
        while name in taken:
            name = f"{name} ({index})"
        taken.add(name)
        names.append(name)
    return names


def _kind(operation: Operation) -> str:
    try:
        return OperationType(operation.type).name
    except ValueError:
        return f"{operation.type:#x}"
