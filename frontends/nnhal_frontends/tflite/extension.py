"""Express operators for which the HAL has no operation as operations of the extension nnhal.tflite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from tflite import TensorType

from nnhal.arrays import Bytes
from nnhal.extensions.tflite import MESSAGE, OPERATION, operand_code
from nnhal.types.layout import Dimensions
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.tflite.builder import TfliteGraphBuilder
from nnhal_frontends.tflite.extension_shapes import result_shapes
from nnhal_frontends.tflite.graph import CUSTOM, TfliteGraph, TfliteOperator
from nnhal_frontends.tflite.options import subgraphs_of
from nnhal_frontends.tflite.variables import ASSIGN_VARIABLE, CALL_ONCE, READ_VARIABLE, VAR_HANDLE
from nnhal_frontends.tflite.writer import WrittenSubgraph, write_model

_CUSTOM = frozenset({"AudioSpectrogram", "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess"})
"""The custom operators that LiteRT has."""
_IN_ORDER = frozenset({ASSIGN_VARIABLE, CALL_ONCE, READ_VARIABLE})
"""Operators whose order matters though no tensor connects them."""
_OUTSIDE = frozenset({*_IN_ORDER, VAR_HANDLE, "IF", "WHILE"})
_HANDLES = (TensorType.RESOURCE, TensorType.VARIANT)


class Unit(NamedTuple):
    """Operators that are added at a time: one operator, or operators that are one operation of the extension."""

    operators: tuple[int, ...]
    extension: bool = False
    results: tuple[int, ...] = ()
    """The tensors of a group that others read."""


def units(graph: TfliteGraph, left: Collection[int]) -> list[Unit]:
    """Return the operators of a graph in an order in which they can be computed, those in ``left`` grouped.

    A group has operators that read one another's results, with no other operator between them. The level of an operator
    is how often a path to it changes between those that are left to the extension and others: it never falls along a
    path, so groups within one level cannot depend on each other in a circle.
    """
    if not left:
        return [Unit((index,)) for index in range(len(graph.operators))]
    makers = {tensor: index for index, operator in enumerate(graph.operators) for tensor in operator.outputs}
    levels: list[int] = []
    groups = _Groups(len(graph.operators))
    last = None
    for index, operator in enumerate(graph.operators):
        before = [makers[tensor] for tensor in operator.inputs if tensor in makers]
        if operator.op_type in _IN_ORDER:
            before += [] if last is None else [last]
            last = index
        levels.append(max((levels[m] + ((m in left) != (index in left)) for m in before), default=0))
        for maker in before:
            if index in left and maker in left and levels[maker] == levels[index]:
                groups.join(maker, index)
    found: dict[int, list[int]] = {}
    for index in range(len(graph.operators)):
        found.setdefault(groups.first(index), []).append(index)
    ordered = sorted(found.values(), key=lambda members: (levels[members[0]], members[0]))
    read = _read_outside(graph, groups)
    return [_unit(graph, members, left, read) for members in ordered]


def _unit(graph: TfliteGraph, members: list[int], left: Collection[int], read: Collection[int]) -> Unit:
    if members[0] not in left:
        return Unit(tuple(members))
    made = (tensor for index in members for tensor in graph.operators[index].outputs)
    return Unit(tuple(members), True, tuple(tensor for tensor in made if tensor in read))


def _read_outside(graph: TfliteGraph, groups: _Groups) -> set[int]:
    """Return the tensors that are read by another group than the one that makes them, or are outputs."""
    makers = {tensor: groups.first(i) for i, operator in enumerate(graph.operators) for tensor in operator.outputs}
    found = set(graph.outputs)
    for index, operator in enumerate(graph.operators):
        found.update(i for i in operator.inputs if i is not None and makers.get(i) != groups.first(index))
    return found


class _Groups:
    """Disjoint sets of operators, each known by its first one."""

    def __init__(self, count: int) -> None:
        self._before = list(range(count))

    def first(self, index: int) -> int:
        while self._before[index] != index:
            self._before[index] = self._before[self._before[index]]
            index = self._before[index]
        return index

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.first(one), self.first(other)))
        self._before[second] = first


def objection(builder: TfliteGraphBuilder, operator: TfliteOperator) -> str:
    """Return why an operator cannot be an operation of the extension; empty if it can as far as the file tells."""
    if operator.op_type.startswith(CUSTOM):
        known = operator.op_type.removeprefix(CUSTOM) in _CUSTOM
        return "" if known else "a custom operator that LiteRT has not"
    if operator.op_type in _OUTSIDE:
        return "control flow and variables are not left to the extension"
    tensors = [builder.graph.tensors[i] for i in (*operator.inputs, *operator.outputs) if i is not None]
    for tensor in tensors:
        if tensor.code in _HANDLES:
            return f"'{tensor.name}' is a handle, which lives within one operation only"
        if tensor.variable:
            return f"'{tensor.name}' is a variable"
    if any(keeps_state(part) for part in subgraphs_within(builder.subgraphs.graphs, operator).values()):
        return "variables are not left to the extension, and its subgraph has some"
    return ""


def keeps_state(graph: TfliteGraph) -> bool:
    """Return whether a subgraph has variables, which an operation of the extension would not have from run to run."""
    handles = any(operator.op_type == VAR_HANDLE for operator in graph.operators)
    return handles or any(tensor.variable for tensor in graph.tensors)


def subgraphs_within(graphs: Sequence[TfliteGraph], operator: TfliteOperator) -> dict[int, TfliteGraph]:
    """Return the subgraphs that an operator refers to by their numbers, and those that theirs refer to."""
    found: dict[int, TfliteGraph] = {}
    waiting = [operator]
    while waiting:
        for number in subgraphs_of(waiting.pop()).values():
            if 0 <= number < len(graphs) and number not in found:
                found[number] = graphs[number]
                waiting.extend(graphs[number].operators)
    return found


def add_extension_operation(builder: TfliteGraphBuilder, unit: Unit) -> None:
    """Add the operation for a group of operators, unless nothing uses their results.

    Raises ValueError if neither HAL nor extension can hold a tensor.
    """
    if not unit.results:
        return
    members = [builder.graph.operators[index] for index in unit.operators]
    made = {index for operator in members for index in operator.outputs}
    read = dict.fromkeys(index for operator in members for index in operator.inputs if index is not None)
    inputs = [index for index in read if index not in made and not builder.is_known(index)]
    main = WrittenSubgraph(builder.graph.tensors, members, inputs, unit.results, builder.stored)
    message = _message(builder.subgraphs.graphs, main)
    _add_run(builder, message, inputs, unit.results, tuple(operator.name for operator in members))
    _complete(builder, members, unit.results)


def foresee(builder: TfliteGraphBuilder, operator: TfliteOperator) -> None:
    """Add operands for the results of an operator that will be left to the extension.

    What reads them is converted with their dimensions already before the conversion begins again.
    """
    with suppress(ValueError):  # then the extension does not take it either
        for index in operator.outputs:
            builder.exact(index)
        _complete(builder, [operator], operator.outputs)


def _complete(builder: TfliteGraphBuilder, members: Sequence[TfliteOperator], results: Collection[int]) -> None:
    """Complete the dimensions of results by those of the operands that their operators read."""
    read = {index for operator in members for index in operator.inputs if index is not None}
    known = {i: builder.model.operands[builder.operands[i]].dimensions for i in read if i in builder.operands}
    for index, dimensions in result_shapes(builder, members, known).items():
        if index in results:
            builder.model.complete(builder.operands[index], dimensions)


def add_whole(builder: TfliteGraphBuilder, content: bytes) -> None:
    """Add an operation that is the whole file. Raises ValueError as ``add_extension_operation`` does."""
    graph = builder.graph
    names = tuple(operator.name for operator in graph.operators)
    _add_run(builder, content, graph.inputs, graph.outputs, names)


def _message(graphs: Sequence[TfliteGraph], main: WrittenSubgraph) -> bytes:
    """Return a file of a main subgraph, and of those that its operators refer to. Raises InvalidModel."""
    places: dict[int, int] = {}
    parts, waiting = [main], [main]
    while waiting:
        for operator in waiting.pop().operators:
            for number in subgraphs_of(operator).values():
                if not 0 <= number < len(graphs):
                    raise InvalidModel(
                        f"operator '{operator.name}' refers to subgraph {number}, there are {len(graphs)}"
                    )
                if number not in places:
                    places[number] = len(parts)
                    parts.append(_written(graphs[number]))
                    waiting.append(parts[-1])
    return write_model(parts, places)


def _written(graph: TfliteGraph) -> WrittenSubgraph:
    def stored(index: int) -> tuple[Bytes, Dimensions] | None:
        tensor = graph.tensors[index]
        return None if tensor.data is None else (tensor.data, tensor.initial_shape)

    return WrittenSubgraph(graph.tensors, graph.operators, graph.inputs, graph.outputs, stored)


def _add_run(
    builder: TfliteGraphBuilder, message: bytes, inputs: Sequence[int], outputs: Sequence[int], names: tuple[str, ...]
) -> None:
    if len(message) > builder.model.room:
        raise ValueError(f"operators for the extension take {len(message)} bytes, expected {builder.model.room} more")
    builder.model.room -= len(message)
    code = builder.model.constant(operand_code(MESSAGE), np.frombuffer(message, np.uint8))
    ends = ([builder.exact(index) for index in indexes] for indexes in (inputs, outputs))
    given, results = ends
    builder.model.extension_operation(OPERATION, [code, *given], results)
    builder.origins.append(names)
