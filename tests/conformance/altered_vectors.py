"""Conformance vectors with one thing changed: dimensions, quantisation, types, lifetimes, parameters, counts.

Many of the models are invalid then, and others mean something else. ``device_trials`` says what a device may make of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, prod
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import DataLocation, Operand, OperandLifeTime, OperandType, Operation
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, is_scalar
from nnhal_tools.cases.case import Case
from tests.support.mutations import place, subgraphs, with_graph, with_operand, with_operation, without

_CONSTANT = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)
_HUGE = (1 << 20, 2**31 - 1)
_INTEGERS = (-(2**31), -1, 0, 1, 2, 3, 7, 2**31 - 1)
_REALS = (-1.0, 0.0, 0.5, 1e30, float("inf"), float("nan"))
_EXTREME = 1e6
"""Numbers of this size overflow in one arithmetic and not in another."""
_OTHER_TYPES = {F32: (F16, I32, Q8A), F16: (F32,), Q8A: (Q8AS, F32), Q8AS: (Q8A, F32), I32: (F32,)}
_FEW = 8
"""A tensor of at most so many integers without a scale is one of parameters, such as a shape."""
_TOO_MANY = 40
"""Axes that are more than any operand may have."""
_MANY = 1 << 16
"""No constant or input gets more elements than this."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of a vector."""

    what: str
    """What is changed."""
    make: Callable[[], Case]
    """Makes the changed vector. Its expected outputs may be wrong."""
    is_extreme: bool = False
    """Whether a number is so large or small that devices with other arithmetic may compute something else."""


def alterations(vector: Case) -> Iterator[Alteration]:
    """Yield every change of a vector, always in the same order."""
    for number, graph in enumerate(subgraphs(vector.model)):
        for index, operand in enumerate(graph.operands):
            name = place(number, f"operand {index}")
            for change in _of_operand(vector, number, index, operand):
                yield replace(change, what=f"{name} {change.what}")
        for index, operation in enumerate(graph.operations):
            for what, lists in _other_lists(operation):
                yield Alteration(
                    f"{place(number, f'operation {index}')} {what}", partial(_with_lists, vector, number, index, lists)
                )
    yield from _of_requests(vector)


def _of_operand(vector: Case, graph: int, index: int, operand: Operand) -> Iterator[Alteration]:
    if operand.lifetime in (OperandLifeTime.SUBGRAPH, OperandLifeTime.NO_VALUE):
        return
    is_constant = operand.lifetime in _CONSTANT
    if not is_scalar(operand.type):
        for dimensions in _other_dimensions(operand.dimensions):
            if not is_constant or 0 < prod(dimensions or (0,)) <= _MANY:
                what = f"has dimensions {list(dimensions)} instead of {list(operand.dimensions)}"
                yield Alteration(what, partial(_redimensioned, vector, graph, index, dimensions))
        for changes in (*_other_quantization(operand), *(() if is_constant else _other_types(operand))):
            is_extreme = not 1 / _EXTREME < changes.get("scale", 1.0) < _EXTREME
            yield Alteration(f"has {changes}", partial(_with_fields, vector, graph, index, changes), is_extreme)
    if is_scalar(operand.type) or (operand.type == I32 and not operand.scale):
        yield from _of_values(vector, graph, index, operand)
    if not graph and operand.lifetime == OperandLifeTime.SUBGRAPH_INPUT:
        yield Alteration("is omitted", partial(_without_input, vector, index))
        yield Alteration("is a constant", partial(input_as_constant, vector, index))
    if not graph and is_constant:
        yield Alteration("is omitted", partial(_without_constant, vector, index))
        yield Alteration("is an input", partial(_constant_as_input, vector, index))


def _of_values(vector: Case, graph: int, index: int, operand: Operand) -> Iterator[Alteration]:
    """Other values of a parameter: of a constant, or of an input."""
    values = _values(vector, graph, index)
    if values is None or values.size > _FEW:
        return
    kind = values.dtype
    others: Sequence[float] = _REALS if kind.kind == "f" else (0, 1, 7) if kind == np.uint8 else _INTEGERS
    for position in range(values.size):
        for other in others:
            if float(values.flat[position]) != other:
                what = f"has {other} instead of {values.flat[position]} at {position}"
                is_extreme = not isfinite(other) or abs(other) > _EXTREME
                yield Alteration(what, partial(_revalued, vector, graph, index, position, other), is_extreme)


def _of_requests(vector: Case) -> Iterator[Alteration]:
    """The model leaves dimensions unknown, and the request gives other ones than the vector's."""
    operands = [vector.model.main.operands[index] for index in vector.model.main.input_indexes]
    for number, (array, operand) in enumerate(zip(vector.inputs, operands, strict=True)):
        if array is None or is_scalar(operand.type):
            continue
        for dimensions in _other_dimensions(array.shape):
            if len(dimensions) == array.ndim and 0 < prod(dimensions) <= _MANY:
                what = f"input {number} is given {list(dimensions)} instead of {list(array.shape)}"
                yield Alteration(what, partial(_given, vector, number, dimensions))


def _other_dimensions(dimensions: Dimensions) -> Iterator[Dimensions]:
    for axis, length in enumerate(dimensions):
        for other in dict.fromkeys((length + 1, length - 1, length * 2, 0, 1, *_HUGE)):
            if other >= 0 and other != length:
                yield without(dimensions, axis, other)
    if dimensions:
        yield from (dimensions[1:], dimensions[:-1], (*dimensions, 1), (1, *dimensions), (2, *dimensions))
        yield from (dimensions[::-1], (0,) * len(dimensions), (), (*dimensions, *dimensions))
        yield (*dimensions, *(1,) * _TOO_MANY)


def _other_quantization(operand: Operand) -> Iterator[dict[str, Any]]:
    if operand.scale:
        yield from ({"scale": scale} for scale in (operand.scale * 2, operand.scale / 2, 1e-30, 1e30))
        yield from ({"zero_point": operand.zero_point + 1}, {"zero_point": operand.zero_point - 1})


def _other_types(operand: Operand) -> Iterator[dict[str, Any]]:
    for other in _OTHER_TYPES.get(OperandType(operand.type), ()):
        yield {"type": other, "scale": (operand.scale or 0.5) if other in (Q8A, Q8AS) else 0.0, "zero_point": 0}


def _other_lists(operation: Operation) -> Iterator[tuple[str, dict[str, tuple[int, ...]]]]:
    inputs, outputs = operation.inputs, operation.outputs
    yield "lacks its last input", {"inputs": inputs[:-1]}
    yield "reads its first input once more", {"inputs": (*inputs, *inputs[:1])}
    yield "reads its last input once more", {"inputs": (*inputs, *inputs[-1:])}
    yield "reads its first two inputs the other way round", {"inputs": (*inputs[1::-1], *inputs[2:])}
    yield "writes its outputs the other way round", {"outputs": outputs[::-1]}


def _with_lists(vector: Case, graph: int, index: int, lists: dict[str, tuple[int, ...]]) -> Case:
    return replace(vector, model=with_operation(vector.model, index, graph, **lists))


def _with_fields(vector: Case, graph: int, index: int, changes: dict[str, Any]) -> Case:
    """The vector with an operand changed, and with its values in another type if it is an input."""
    changed = replace(vector, model=with_operand(vector.model, index, graph, **changes))
    given = _given_values(vector, graph, index)
    if given is None or "type" not in changes:
        return changed
    return _fed(changed, index, given.astype(ELEMENT_TYPES[changes["type"]]))


def _redimensioned(vector: Case, graph: int, index: int, dimensions: Dimensions) -> Case:
    """The vector with an operand of other dimensions, and with as many values if it has values."""
    values = _values(vector, graph, index)
    if subgraphs(vector.model)[graph].operands[index].lifetime in _CONSTANT and values is not None:
        return _as_constant(vector, graph, index, np.resize(values, dimensions))
    changed = replace(vector, model=with_operand(vector.model, index, graph, dimensions=dimensions))
    if values is None or not dimensions or not 0 < prod(dimensions) <= _MANY:
        return changed
    return _fed(changed, index, np.resize(values, dimensions))


def _revalued(vector: Case, graph: int, index: int, position: int, other: float) -> Case:
    values = np.array(_values(vector, graph, index))
    with np.errstate(over="ignore"):  # 1e30 is inf as a float16
        values.reshape(-1)[position] = other
    if subgraphs(vector.model)[graph].operands[index].lifetime in _CONSTANT:
        return _as_constant(vector, graph, index, values)
    return _fed(vector, index, values)


def _given(vector: Case, number: int, dimensions: Dimensions) -> Case:
    model = vector.model
    for graph, subgraph in enumerate(subgraphs(model)):
        operands = tuple(
            operand if operand.lifetime in _CONSTANT else replace(operand, dimensions=(0,) * len(operand.dimensions))
            for operand in subgraph.operands
        )
        model = with_graph(model, graph, operands=operands)
    return _fed(
        replace(vector, model=model), model.main.input_indexes[number], np.resize(_at(vector, number), dimensions)
    )


def _without_input(vector: Case, index: int) -> Case:
    return replace(
        _unlisted(vector, index),
        model=with_operand(_unlisted(vector, index).model, index, lifetime=OperandLifeTime.NO_VALUE),
    )


def input_as_constant(vector: Case, index: int) -> Case:
    """Return the vector with an input of its model, by operand index, as a constant of its values."""
    values = _given_values(vector, 0, index)
    if values is None or not values.size:
        return _without_input(vector, index)
    return _as_constant(_unlisted(vector, index), 0, index, values)


def _without_constant(vector: Case, index: int) -> Case:
    nothing: dict[str, Any] = {"lifetime": OperandLifeTime.NO_VALUE, "location": DataLocation()}
    return replace(vector, model=with_operand(vector.model, index, **nothing))


def _constant_as_input(vector: Case, index: int) -> Case:
    fields: dict[str, Any] = {"lifetime": OperandLifeTime.SUBGRAPH_INPUT, "location": DataLocation()}
    model = with_operand(vector.model, index, **fields)
    model = with_graph(model, 0, input_indexes=(*model.main.input_indexes, index))
    return replace(vector, model=model, inputs=(*vector.inputs, _values(vector, 0, index)))


def _unlisted(vector: Case, index: int) -> Case:
    indexes = vector.model.main.input_indexes
    number = indexes.index(index)
    model = with_graph(vector.model, 0, input_indexes=without(indexes, number))
    return replace(vector, model=model, inputs=without(vector.inputs, number))


def _fed(vector: Case, index: int, values: Array) -> Case:
    number = vector.model.main.input_indexes.index(index)
    return replace(vector, inputs=without(vector.inputs, number, values))


def _as_constant(vector: Case, graph: int, index: int, values: Array) -> Case:
    model = vector.model
    start, raw = len(model.operand_values) + -len(model.operand_values) % 4, np.ascontiguousarray(values).tobytes()
    changed = with_operand(
        model,
        index,
        graph,
        dimensions=values.shape,
        lifetime=OperandLifeTime.CONSTANT_COPY,
        location=DataLocation(0, start, len(raw)),
    )
    return replace(vector, model=replace(changed, operand_values=model.operand_values.ljust(start, b"\0") + raw))


def _values(vector: Case, graph: int, index: int) -> Array | None:
    """The values of a constant or of an input of the model; None if it has none."""
    operand = subgraphs(vector.model)[graph].operands[index]
    if operand.lifetime not in _CONSTANT:
        return _given_values(vector, graph, index)
    start = operand.location.offset
    raw = vector.model.operand_values[start : start + operand.location.length]
    return np.frombuffer(raw, ELEMENT_TYPES[operand.type]).reshape(operand.dimensions)


def _given_values(vector: Case, graph: int, index: int) -> Array | None:
    indexes = vector.model.main.input_indexes
    return None if graph or index not in indexes else vector.inputs[indexes.index(index)]


def _at(vector: Case, number: int) -> Array:
    array = vector.inputs[number]
    assert array is not None
    return array
