"""A model of the base set with the values of its inputs and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, Operation, Subgraph
from nnhal.types.layout import Dimensions, fully_specified
from nnhal.validation import validate_model

_ALIGNMENT = 4


@dataclass(frozen=True, slots=True)
class Branch:
    """A subgraph that operations of control flow refer to, with its constants."""

    graph: Subgraph
    values: Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class Case:
    """A main subgraph, and the subgraphs that it refers to."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: Mapping[int, Array]
    """The values of inputs and constants, by operand."""
    relaxed: bool = False
    uncompared: frozenset[int] = frozenset()
    """Outputs whose values are not compared, but only their dimensions."""
    branches: tuple[Branch, ...] = ()
    """The subgraphs that operations refer to, by their index."""
    names: tuple[str, ...] = ()
    """The user's names of the first operands, as many as have any; empty words for one without."""

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
        operands = tuple(
            replace(operand, lifetime=roles[number], location=DataLocation()) if number in roles else operand
            for number, operand in enumerate(self.operands)
        )
        constants = {number: array for number, array in self.values.items() if number not in roles}
        main = Subgraph(_with_constants(operands, constants, content), self.operations, self.inputs, self.outputs)
        branches = tuple(
            replace(branch.graph, operands=_with_constants(branch.graph.operands, branch.values, content))
            for branch in self.branches
        )
        return Model(main, branches, bytes(content), (), self.relaxed)

    def with_values(self, changed: Mapping[int, Array]) -> Case:
        """Return the case with other values for some operands, and their dimensions."""
        shapes = {number: array.shape for number, array in changed.items()}
        return replace(self.with_dimensions(shapes), values={**self.values, **changed})

    def with_dimensions(self, known: Mapping[int, Dimensions]) -> Case:
        """Return the case with other dimensions of some operands."""
        operands = list(self.operands)
        for number, dimensions in known.items():
            operands[number] = replace(operands[number], dimensions=dimensions)
        return replace(self, operands=tuple(operands))

    @property
    def has_open_dimensions(self) -> bool:
        """Whether dimensions of what operations compute are known only after an execution."""
        computed = [self.operands[operand] for operand in self.computed]
        return not all(fully_specified(operand.type, operand.dimensions) for operand in computed)

    def ending_at(self, outputs: Sequence[int]) -> Case:
        """Return the part of the case that computes these operands."""
        needed, operations = set(outputs), []
        for operation in reversed(self.operations):
            if needed & set(operation.outputs):
                needed |= set(operation.inputs)
                operations.append(operation)
        return replace(self, operations=tuple(reversed(operations)), outputs=tuple(outputs))._renumbered()

    def beginning_after(self, operation: Operation, results: Mapping[int, Array]) -> Case:
        """Return the case with the results of an operation as inputs."""
        operations = tuple(other for other in self.operations if other is not operation)
        changed = replace(self, operations=operations, inputs=(*self.inputs, *results))
        return changed.with_values(results).ending_at(self.outputs)

    def inlined(self, operation: Operation, branch: int, inputs: Sequence[int], outputs: Sequence[int]) -> Case:
        """Return the case with the operations of a subgraph in place of an operation that refers to it.

        ``inputs`` and ``outputs`` are operands in place of the subgraph's, all of them or the first ones.
        """
        graph, values = self.branches[branch].graph, self.branches[branch].values
        index = {
            **dict(zip(graph.input_indexes, inputs, strict=False)),
            **dict(zip(graph.output_indexes, outputs, strict=False)),
        }
        added = [number for number in range(len(graph.operands)) if number not in index]
        index.update({number: len(self.operands) + place for place, number in enumerate(added)})
        nodes = [
            replace(node, inputs=tuple(index[n] for n in node.inputs), outputs=tuple(index[n] for n in node.outputs))
            for node in graph.operations
        ]
        place = next(place for place, other in enumerate(self.operations) if other is operation)
        return replace(
            self,
            operands=(*self.operands, *(graph.operands[number] for number in added)),
            operations=(*self.operations[:place], *nodes, *self.operations[place + 1 :]),
            values={**self.values, **{index[number]: array for number, array in values.items()}},
        )

    def settled(self) -> Case:
        """Return the case with the dimensions that follow from its inputs and constants, unknown ones where none do.

        Raises HalError if the model is invalid.
        """
        model = self.with_dimensions(dict.fromkeys(self.computed, ())).model()
        known = propagate_dimensions(ResolvedModel(model, inline_constants(model)))
        found = self.with_dimensions({number: known[number] for number in self.computed})
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
            names=tuple(self.names[number] if number < len(self.names) else "" for number in used),
            values={index[number]: np.asarray(array) for number, array in self.values.items() if number in index},
            uncompared=frozenset(moved(sorted(self.uncompared))),
            branches=self.branches if any(self.operands[n].lifetime == OperandLifeTime.SUBGRAPH for n in used) else (),
        )


def _with_constants(
    operands: Sequence[Operand], values: Mapping[int, Array], content: bytearray
) -> tuple[Operand, ...]:
    """Append constants to the operand values of a model, and return the operands with their places."""
    found = list(operands)
    for number, array in values.items():
        raw = array.tobytes()
        content.extend(bytes(-len(content) % _ALIGNMENT))
        location = DataLocation(0, len(content), len(raw))
        content.extend(raw)
        found[number] = replace(found[number], lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
    return tuple(found)
