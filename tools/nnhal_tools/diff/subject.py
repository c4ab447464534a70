"""The model under comparison: its values, its layers, and models cut out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from nnhal.arrays import Array
from nnhal.resolved import propagate_dimensions
from nnhal.slices import slice_of
from nnhal.types import Model, Operand, OperandLifeTime, OperationType
from nnhal.types.layout import Dimensions, is_extension
from nnhal_frontends.imported import ImportedModel
from nnhal_tools.element_types import number_type_of

Values = Mapping[int, Array]
"""Arrays of operands of main, in the form that they have in memory."""

_COMPUTED = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT)


@dataclass(frozen=True, slots=True)
class ComparedLayer:
    """Operations that end in values that both sides show: one operation, or several that are seen as one."""

    number: int
    """The number of its last operation."""
    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    """The values that it reads: inputs of the model, or values of other layers."""
    outputs: tuple[int, ...]
    """The outputs of the last operation that are shown."""


@dataclass(frozen=True, slots=True)
class SideValues:
    """Values that one side computes."""

    samples: Sequence[Values]
    """The values of each sample. Operands that are missing are not shown by this side."""
    fused: tuple[int, ...] = ()
    """Values that it computes only inside of something else."""
    notes: tuple[str, ...] = ()


class ComparedSide(Protocol):
    """A device, or a runtime in this process."""

    name: str

    def observe(self, samples: Sequence[Values]) -> SideValues:
        """Run the model on each sample of its inputs, and return its values, those inside too.

        Raises HalError or ValueError if it cannot run the model.
        """
        ...


class Subject:
    """A model, by the operands and operations of its main subgraph."""

    def __init__(self, imported: ImportedModel) -> None:
        """Raises HalError if operands contradict one another."""
        self.imported = imported
        self.model: Model = imported.model
        self.dimensions: tuple[Dimensions, ...] = propagate_dimensions(imported.resolved())

    @cached_property
    def everything(self) -> tuple[int, ...]:
        """All operations."""
        return tuple(range(len(self.model.main.operations)))

    @cached_property
    def computed(self) -> frozenset[int]:
        """The operands that operations compute and that are numbers, so that they can be compared."""
        found = (operand for operation in self.model.main.operations for operand in operation.outputs)
        return frozenset(
            operand for operand in found if number_type_of(self.model, self.operand(operand).type) is not None
        )

    @cached_property
    def _producers(self) -> dict[int, int]:
        nodes = enumerate(self.model.main.operations)
        return {operand: number for number, operation in nodes for operand in operation.outputs}

    @cached_property
    def _readers(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {operand: {-1} for operand in self.model.main.output_indexes}
        for number, operation in enumerate(self.model.main.operations):
            for operand in operation.inputs:
                found.setdefault(operand, set()).add(number)
        return found

    def operand(self, index: int) -> Operand:
        """Return an operand of main."""
        return self.model.main.operands[index]

    def name(self, index: int) -> str:
        """Return the user's name of an operand; one that says where it is if it has none."""
        return self.imported.operand_names[index] or f"value {index}"

    def kind(self, number: int) -> str:
        """Return the word of an operation."""
        code = self.model.main.operations[number].type
        if not is_extension(code):
            return OperationType(code).name
        named = {entry.prefix: entry.name for entry in self.model.extension_name_to_prefix}
        return f"{named.get(code >> 16, 'extension')}: RUN"

    def place(self, number: int) -> str:
        """Return the word of an operation, with the user's nodes."""
        return f"{self.kind(number)} {' + '.join(self.nodes((number,)))}".strip()

    def nodes(self, operations: Sequence[int]) -> tuple[str, ...]:
        """Return the user's nodes that operations stand for."""
        return tuple(dict.fromkeys(node for number in operations for node in self.imported.operation_nodes[number]))

    def inputs_of(self, operations: Sequence[int]) -> tuple[int, ...]:
        """Return the values that operations read and do not compute."""
        nodes = [self.model.main.operations[number] for number in operations]
        here = {operand for node in nodes for operand in node.outputs}
        read = dict.fromkeys(operand for node in nodes for operand in node.inputs if operand not in here)
        values = (*_COMPUTED, OperandLifeTime.SUBGRAPH_INPUT)
        return tuple(operand for operand in read if self.operand(operand).lifetime in values)

    def outputs_of(self, operations: Sequence[int]) -> tuple[int, ...]:
        """Return what operations compute and others read, or is an output of the model, in the model's order."""
        mine = set(operations)
        found = [
            operand
            for number in operations
            for operand in self.model.main.operations[number].outputs
            if not self._readers.get(operand, mine) <= mine
        ]
        order = {operand: place for place, operand in enumerate(self.model.main.output_indexes)}
        return tuple(sorted(found, key=lambda operand: order.get(operand, len(order))))

    def cut(self, operations: Sequence[int], outputs: Sequence[int]) -> tuple[Model, tuple[int, ...]]:
        """Return operations as a model with these outputs, and the operands that are its inputs."""
        main = self.model.main
        if tuple(operations) == self.everything and tuple(outputs) == main.output_indexes:
            return self.model, main.input_indexes
        inputs = self.inputs_of(operations)
        return slice_of(self.model, self.dimensions, operations, inputs, outputs), inputs

    def layers(self, shown: Collection[int]) -> list[ComparedLayer]:
        """Return the layers that end in these values. Each reads only these values, and inputs of the model."""
        found = []
        for number, operation in enumerate(self.model.main.operations):
            outputs = tuple(operand for operand in operation.outputs if operand in shown)
            if outputs:
                operations = self._cone(number, shown)
                found.append(ComparedLayer(number, operations, self.inputs_of(operations), outputs))
        return found

    def before(self, number: int) -> tuple[int, ...]:
        """Return an operation and all that it depends on, in their order."""
        return self._cone(number, ())

    def _cone(self, last: int, shown: Collection[int]) -> tuple[int, ...]:
        """Return an operation with those whose results are not shown and that it depends on."""
        found, waiting = {last}, [last]
        while waiting:
            for operand in self.model.main.operations[waiting.pop()].inputs:
                source = self._producers.get(operand)
                if source is not None and operand not in shown and source not in found:
                    found.add(source)
                    waiting.append(source)
        return tuple(sorted(found))
