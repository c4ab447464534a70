"""A model of the base set with the values of its inputs and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import invalid_argument
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Operation, Subgraph
from nnhal.types.layout import fully_specified
from nnhal.validation import validate_model

_ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class Case:
    """A main subgraph, without references to others."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: Mapping[int, Array]
    """Of inputs and constants, by operand."""
    relaxed: bool = False

    @property
    def computed(self) -> tuple[int, ...]:
        """The operands that operations write."""
        return tuple(operand for operation in self.operations for operand in operation.outputs)

    @property
    def given(self) -> list[Array]:
        """The values of the inputs."""
        return [self.values[operand] for operand in self.inputs]

    def model(self) -> Model:
        """Return the model, with all constants in its operand values. It is not validated."""
        content = bytearray()
        roles = {
            **dict.fromkeys(self.computed, OperandLifeTime.TEMPORARY_VARIABLE),
            **dict.fromkeys(self.outputs, OperandLifeTime.SUBGRAPH_OUTPUT),
            **dict.fromkeys(self.inputs, OperandLifeTime.SUBGRAPH_INPUT),
        }
        operands = []
        for number, operand in enumerate(self.operands):
            if number in roles:
                operands.append(replace(operand, lifetime=roles[number], location=DataLocation()))
            elif number in self.values:
                raw = self.values[number].tobytes()
                content.extend(bytes(-len(content) % _ALIGNMENT))
                location = DataLocation(0, len(content), len(raw))
                content.extend(raw)
                operands.append(replace(operand, lifetime=OperandLifeTime.CONSTANT_COPY, location=location))
            else:
                operands.append(operand)
        main = Subgraph(tuple(operands), self.operations, self.inputs, self.outputs)
        return Model(main, (), bytes(content), (), self.relaxed)

    def with_values(self, changed: Mapping[int, Array]) -> Case:
        """Return the case with other values for some operands, and their dimensions."""
        operands = list(self.operands)
        for number, array in changed.items():
            operands[number] = replace(operands[number], dimensions=array.shape)
        return replace(self, operands=tuple(operands), values={**self.values, **changed})

    def ending_at(self, outputs: Sequence[int]) -> Case:
        """Return the part of the case that computes these operands."""
        needed, operations = set(outputs), []
        for operation in reversed(self.operations):
            if needed & set(operation.outputs):
                needed |= set(operation.inputs)
                operations.append(operation)
        return replace(self, operations=tuple(reversed(operations)), outputs=tuple(outputs))._renumbered()

    def beginning_at(self, operand: int, values: Array) -> Case:
        """Return the case with the only result of an operation as an input."""
        operations = tuple(operation for operation in self.operations if operand not in operation.outputs)
        changed = replace(self, operations=operations, inputs=(*self.inputs, operand))
        return changed.with_values({operand: values}).ending_at(self.outputs)

    def settled(self) -> Case:
        """Return the case with the dimensions that follow from its inputs and constants.

        Raises HalError if there are none, or the model is invalid.
        """
        operands = list(self.operands)
        for number in self.computed:
            if operands[number].dimensions:
                operands[number] = replace(operands[number], dimensions=())
        model = replace(self, operands=tuple(operands)).model()
        known = propagate_dimensions(ResolvedModel(model, inline_constants(model)))
        for number in self.computed:
            if not fully_specified(operands[number].type, known[number]):
                invalid_argument(f"operand {number} has no dimensions before execution")
            operands[number] = replace(operands[number], dimensions=known[number])
        found = replace(self, operands=tuple(operands))
        validate_model(found.model())
        return found

    def _renumbered(self) -> Case:
        """Return the case without operands that nothing uses."""
        used = dict.fromkeys(number for node in self.operations for number in (*node.inputs, *node.outputs))
        index = {number: place for place, number in enumerate(used)}

        def moved(numbers: Sequence[int]) -> tuple[int, ...]:
            return tuple(index[number] for number in numbers if number in index)

        nodes = tuple(replace(node, inputs=moved(node.inputs), outputs=moved(node.outputs)) for node in self.operations)
        return replace(
            self,
            operands=tuple(self.operands[number] for number in used),
            operations=nodes,
            inputs=moved(self.inputs),
            outputs=moved(self.outputs),
            values={index[number]: np.asarray(array) for number, array in self.values.items() if number in index},
        )
