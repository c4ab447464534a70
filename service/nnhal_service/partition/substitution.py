"""Putting the subgraphs that a device has made of operations in their place: OptimizationViews of Arm NN's backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from nnhal.errors import general_failure
from nnhal.extensions import extension_code, split_code
from nnhal.types import (
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    Operation,
    Subgraph,
    Substitution,
)
from nnhal.types.layout import combine, describe, is_extension

_VALUES = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT, OperandLifeTime.TEMPORARY_VARIABLE)
_COPY_ALIGNMENT = 4


def substituted(model: Model, substitutions: Sequence[Substitution], device: str) -> Model:
    """Return the model with the subgraphs of substitutions in place of the operations that these are for.

    Raises GENERAL_FAILURE, which names the device, if one does not fit, or its operations cannot run as one.
    """
    chosen = [each for each in substitutions if each.subgraph is not None]
    if not chosen:
        return model
    return _Splice(model, device).of(chosen)


def _without_unwritten(graph: Subgraph) -> Subgraph:
    """Return the same graph without temporary variables that no operation writes any more."""
    written = {operand for node in graph.operations for operand in node.outputs}
    temporary = OperandLifeTime.TEMPORARY_VARIABLE
    kept = [i for i, operand in enumerate(graph.operands) if operand.lifetime != temporary or i in written]
    index = {operand: position for position, operand in enumerate(kept)}
    return Subgraph(
        tuple(graph.operands[i] for i in kept),
        tuple(
            replace(node, inputs=tuple(index[i] for i in node.inputs), outputs=tuple(index[i] for i in node.outputs))
            for node in graph.operations
        ),
        tuple(index[i] for i in graph.input_indexes),
        tuple(index[i] for i in graph.output_indexes),
    )


class _Splice:
    """A model whose operations are replaced."""

    def __init__(self, model: Model, device: str) -> None:
        self._model = model
        self._device = device
        self._operands = list(model.main.operands)
        self._values = bytearray(model.operand_values)
        self._prefixes = {each.name: each.prefix for each in model.extension_name_to_prefix}

    def of(self, substitutions: Sequence[Substitution]) -> Model:
        main = self._model.main
        place = {number: each for each in substitutions for number in each.operations}
        nodes = {number: [node] for number, node in enumerate(main.operations) if number not in place}
        nodes |= {each.operations[0]: self._replacement(each) for each in substitutions}
        first = {number: each.operations[0] for number, each in place.items()}
        order: TopologicalSorter[int] = TopologicalSorter()
        writers = {operand: number for number, node in enumerate(main.operations) for operand in node.outputs}
        for number, node in enumerate(main.operations):
            mine = first.get(number, number)
            before = {first.get(writers[i], writers[i]) for i in node.inputs if i in writers}
            order.add(mine, *(before - {mine}))
        try:
            operations = tuple(node for number in order.static_order() for node in nodes[number])
        except CycleError:
            general_failure(f"device {self._device!r} replaces operations that others both follow and precede")
        prefixes = tuple(ExtensionNameAndPrefix(name, prefix) for name, prefix in self._prefixes.items())
        return replace(
            self._model,
            main=_without_unwritten(replace(main, operands=tuple(self._operands), operations=operations)),
            operand_values=bytes(self._values),
            extension_name_to_prefix=prefixes,
        )

    def _replacement(self, substitution: Substitution) -> list[Operation]:
        """The operations of a replacement, whose own operands join the model's."""
        given = substitution.subgraph
        assert given is not None
        if given.referenced or given.pools:
            self._refuse(substitution, "it has subgraphs of its own, or constants in pools")
        graph, inputs, outputs = given.main, *self._border(substitution.operations)
        if (len(graph.input_indexes), len(graph.output_indexes)) != (len(inputs), len(outputs)):
            got = f"{len(graph.input_indexes)} inputs and {len(graph.output_indexes)} outputs"
            self._refuse(substitution, f"it has {got}, expected {len(inputs)} and {len(outputs)}")
        renamed = dict(zip((*graph.input_indexes, *graph.output_indexes), (*inputs, *outputs), strict=True))
        for theirs, ours in renamed.items():
            self._require_equal(substitution, graph.operands[theirs], self._operands[ours])
        self._values.extend(bytes(-len(self._values) % _COPY_ALIGNMENT))
        start = len(self._values)
        self._values.extend(given.operand_values)
        names = {each.prefix: each.name for each in given.extension_name_to_prefix}
        for number, operand in enumerate(graph.operands):
            if number not in renamed:
                renamed[number] = len(self._operands)
                self._operands.append(self._joined(operand, start, names))
        return [
            Operation(
                self._code(node.type, names),
                tuple(renamed[i] for i in node.inputs),
                tuple(renamed[i] for i in node.outputs),
            )
            for node in graph.operations
        ]

    def _border(self, operations: Sequence[int]) -> tuple[list[int], list[int]]:
        """The values that operations read and do not write, and those they write that are read elsewhere."""
        main, mine = self._model.main, set(operations)
        nodes = [main.operations[number] for number in operations]
        written = {operand for node in nodes for operand in node.outputs}
        read = {operand for node in nodes for operand in node.inputs} - written
        others = {i for number, node in enumerate(main.operations) if number not in mine for i in node.inputs}
        inputs = sorted(operand for operand in read if main.operands[operand].lifetime in _VALUES)
        return inputs, sorted(written & {*others, *main.output_indexes})

    def _joined(self, operand: Operand, start: int, names: dict[int, str]) -> Operand:
        where = operand.location
        is_copied = operand.lifetime == OperandLifeTime.CONSTANT_COPY
        location = DataLocation(0, start + where.offset, where.length) if is_copied else where
        return replace(operand, type=self._code(operand.type, names), location=location)

    def _code(self, code: int, names: dict[int, str]) -> int:
        """A type with the prefix that its extension has in the model."""
        if not is_extension(code):
            return code
        prefix, number = split_code(code)
        name = names[prefix]
        unused = max(self._prefixes.values(), default=0) + 1
        return extension_code(self._prefixes.setdefault(name, unused), number)

    def _require_equal(self, substitution: Substitution, theirs: Operand, ours: Operand) -> None:
        kinds = [(each.type, each.scale, each.zero_point) for each in (theirs, ours)]
        if kinds[0] != kinds[1] or combine(theirs.dimensions, ours.dimensions) is None:
            got, expected = (f"type {each.type} {describe(each.dimensions)}" for each in (theirs, ours))
            self._refuse(substitution, f"it has {got} for {expected}, or another quantisation")

    def _refuse(self, substitution: Substitution, why: str) -> None:
        what = f"operations {list(substitution.operations)} by {substitution.replacement!r}"
        general_failure(f"device {self._device!r} replaces {what}: {why}")
