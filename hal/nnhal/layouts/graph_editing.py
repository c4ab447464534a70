"""The main subgraph of a model with channels last, while operations of it are replaced or left out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.channels_last import ChannelsLast
from nnhal.layouts.inline_constants import InlineConstants
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Operand, Operation, Subgraph
from nnhal.types.layout import ELEMENT_TYPES, Dimensions

_AXES = 1


class GraphEditing:
    """Operations and operands by number. Operands that nothing uses in the end are left out."""

    def __init__(self, given: ChannelsLast) -> None:
        self._given = given.model
        self._main = given.model.model.main
        self._origins = list(given.origins)
        self._writers = {each: n for n, operation in enumerate(self._main.operations) for each in operation.outputs}
        self._added = InlineConstants(len(given.model.model.operand_values))
        self._parameters: dict[tuple[int, Dimensions, bytes], int] = {}
        self._renamed: dict[int, int] = {}
        self._outputs = frozenset(self._main.output_indexes)
        self._left_out: set[int] = set()
        self.dimensions: list[Dimensions] = list(propagate_dimensions(given.model))
        """Of each operand, as far as they are known."""
        self.operands: list[Operand] = list(self._main.operands)
        self.operations: list[Operation] = list(self._main.operations)
        self.constants: dict[int, Array] = dict(given.model.constants[0])

    def is_output(self, operand: int) -> bool:
        return operand in self._outputs

    def is_sized(self, operand: int) -> bool:
        dimensions = self.dimensions[operand]
        return bool(dimensions) and 0 not in dimensions

    def are_alike(self, one: int, other: int) -> bool:
        """Return whether two operands have the same type and quantisation."""
        a, b = self.operands[one], self.operands[other]
        return (a.type, a.scale, a.zero_point, a.extra_params) == (b.type, b.scale, b.zero_point, b.extra_params)

    def axes_of(self, transposition: Operation) -> tuple[int, ...] | None:
        """The axes of a TRANSPOSE; None unless they are constant."""
        axes = self.constants.get(transposition.inputs[_AXES]) if len(transposition.inputs) > _AXES else None
        return None if axes is None else tuple(axes.tolist())

    def readers(self) -> dict[int, list[int]]:
        """The numbers of the operations that read each operand, once for each time."""
        found: dict[int, list[int]] = {}
        for number, operation in enumerate(self.operations):
            for operand in () if number in self._left_out else operation.inputs:
                found.setdefault(operand, []).append(number)
        return found

    def rename(self, operand: int, to: int) -> None:
        """Have operations that are renamed from now on read another operand."""
        self._renamed[operand] = to

    def renamed(self, operation: Operation) -> Operation:
        if self._renamed.keys().isdisjoint(operation.inputs):
            return operation
        return replace(operation, inputs=tuple(self._renamed.get(operand, operand) for operand in operation.inputs))

    def constant(self, code: int, values: Array) -> int:
        """Add a parameter; equal ones are one operand."""
        key = (code, values.shape, values.tobytes())
        if key not in self._parameters:
            self._parameters[key] = self._constant(Operand(code), values.astype(ELEMENT_TYPES[code]))
        return self._parameters[key]

    def constant_like(self, operand: int, values: Array) -> int:
        """Add a constant of the type and quantisation of another one."""
        return self._constant(self.operands[operand], values)

    def stand_in(self, number: int, operand: int) -> None:
        """Give an operation that was added the origin of the operation that computes an operand."""
        if self._origins[number] is None and operand in self._writers:
            self._origins[number] = self._origins[self._writers[operand]]

    def leave_out_unread(self, types: Collection[int]) -> None:
        """Leave out operations of these types whose results nobody reads."""
        read = set(self._outputs)
        for number in reversed(range(len(self.operations))):
            operation = self.operations[number]
            if operation.type in types and read.isdisjoint(operation.outputs):
                self._left_out.add(number)
            else:
                read.update(operation.inputs)

    def edited(self) -> ChannelsLast:
        numbers = [number for number in range(len(self.operations)) if number not in self._left_out]
        kept = [self.operations[number] for number in numbers]
        if kept == list(self._main.operations):
            return ChannelsLast(self._given, tuple(self._origins))
        used = dict.fromkeys(self._main.input_indexes)
        for operation in kept:
            used.update(dict.fromkeys((*operation.inputs, *operation.outputs)))
        used.update(dict.fromkeys(self._main.output_indexes))
        index = {operand: position for position, operand in enumerate(used)}

        def moved(operands: Collection[int]) -> tuple[int, ...]:
            return tuple(index[operand] for operand in operands)

        main = Subgraph(
            tuple(self.operands[operand] for operand in used),
            tuple(replace(each, inputs=moved(each.inputs), outputs=moved(each.outputs)) for each in kept),
            moved(self._main.input_indexes),
            moved(self._main.output_indexes),
        )
        model = self._given.model
        constants = {index[operand]: values for operand, values in self.constants.items() if operand in index}
        names = {index[operand]: name for operand, name in self._given.names.items() if operand in index}
        edited = replace(model, main=main, operand_values=model.operand_values + self._added.values)
        return ChannelsLast(
            ResolvedModel(edited, (constants, *self._given.constants[1:]), names),
            tuple(self._origins[number] for number in numbers),
        )

    def _constant(self, like: Operand, values: Array) -> int:
        stored = np.ascontiguousarray(values)
        self.operands.append(self._added.add(like, stored))
        self.dimensions.append(stored.shape)
        self.constants[len(self.operands) - 1] = stored
        return len(self.operands) - 1
