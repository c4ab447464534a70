"""Removal of what a model with channels last can do without.

- A TRANSPOSE that moves axes of length 1 only is a RESHAPE, and of several RESHAPEs in a row the last one is enough.
- If a tensor is transposed only to be flattened for a matrix of weights, the weights are permuted instead.
- What nobody reads any more is left out.

All of that needs dimensions that are known.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.channels_last import ChannelsLast
from nnhal.layouts.graph_editing import GraphEditing
from nnhal.types import OperandType, Operation, OperationType
from nnhal.types.layout import Dimensions
from nnhal.types.orders import moves_elements

_INPUT, _PARAMETER = 0, 1
"""The positions of the tensor, and of the shape, the axes or the weights."""
_VIEWS = frozenset({OperationType.EXPAND_DIMS, OperationType.RESHAPE, OperationType.SQUEEZE})
"""Operations that give the same elements other dimensions."""
_ONE_BY_ONE = frozenset(
    {
        OperationType.DEQUANTIZE,
        OperationType.LOGISTIC,
        OperationType.QUANTIZE,
        OperationType.RELU,
        OperationType.RELU1,
        OperationType.RELU6,
        OperationType.TANH,
    }
)
"""Operations on each element alone."""
_RESHAPED = frozenset(
    {
        OperandType.TENSOR_FLOAT16,
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_INT32,
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    }
)
"""What RESHAPE takes."""


def simplified(given: ChannelsLast) -> ChannelsLast:
    """Return a model that computes the same with fewer operations that only move values.

    Its inputs and outputs are those of the given one. A RESHAPE may have the origin of any operation that moves values,
    and more than one the same.
    """
    graph = GraphEditing(given)
    moving = _VIEWS | {OperationType.TRANSPOSE}
    _join_views(graph)
    graph.leave_out_unread(moving)
    _permute_weights(graph)
    graph.leave_out_unread(moving)
    return graph.edited()


def _join_views(graph: GraphEditing) -> None:
    """Have each view read the value that an operation has computed, and each value have one view of a shape."""
    bases: dict[int, int] = {}
    known: dict[tuple[int, Dimensions], int] = {}
    for number, operation in enumerate(graph.operations):
        graph.operations[number] = operation = graph.renamed(operation)
        if not _is_view(graph, operation):
            continue
        source, (output,) = operation.inputs[_INPUT], operation.outputs
        base, dimensions = bases.get(source, source), graph.dimensions[output]
        if not graph.are_alike(base, output):
            continue
        bases[output] = base
        graph.stand_in(number, source)
        same = known.setdefault((base, dimensions), output)
        if graph.dimensions[base] == dimensions:
            same = base
        if same != output and not graph.is_output(output):
            graph.rename(output, same)
        elif base != source or operation.type == OperationType.TRANSPOSE:
            shape = graph.constant(OperandType.TENSOR_INT32, np.array(dimensions, np.int32))
            graph.operations[number] = Operation(OperationType.RESHAPE, (base, shape), operation.outputs)


def _is_view(graph: GraphEditing, operation: Operation) -> bool:
    """Return whether an operation of known dimensions gives the same elements other dimensions, as a RESHAPE could."""
    if operation.type not in _VIEWS and operation.type != OperationType.TRANSPOSE:
        return False
    source, output = operation.inputs[_INPUT], operation.outputs[0]
    if graph.operands[output].type not in _RESHAPED or not (graph.is_sized(source) and graph.is_sized(output)):
        return False
    if operation.type != OperationType.TRANSPOSE:
        return True
    axes = graph.axes_of(operation)
    return axes is not None and not moves_elements(axes, graph.dimensions[source])


def _permute_weights(graph: GraphEditing) -> None:
    readers = graph.readers()
    for number, transposition in enumerate(graph.operations):
        axes = graph.axes_of(transposition) if transposition.type == OperationType.TRANSPOSE else None
        if axes is None or axes[0] != 0 or not graph.is_sized(transposition.inputs[_INPUT]):
            continue
        reader = _only_reader(graph, readers, number)
        matrix = reader
        while matrix is not None and graph.operations[matrix].type in _VIEWS | _ONE_BY_ONE:
            matrix = _only_reader(graph, readers, matrix)
        if reader is None or matrix is None:
            continue
        weights = _permuted(graph, graph.operations[matrix], transposition, axes)
        if weights is None:
            continue
        after = graph.operations[matrix]
        inputs = (*after.inputs[:_PARAMETER], weights, *after.inputs[_PARAMETER + 1 :])
        graph.operations[matrix] = replace(after, inputs=inputs)
        before = graph.operations[reader]
        graph.operations[reader] = replace(before, inputs=(transposition.inputs[_INPUT], *before.inputs[1:]))


def _only_reader(graph: GraphEditing, readers: dict[int, list[int]], number: int) -> int | None:
    """The operation that alone reads what another one computes, as its first input."""
    (output,) = graph.operations[number].outputs
    found = readers.get(output, [])
    if len(found) != 1 or graph.is_output(output):
        return None
    return found[0] if graph.operations[found[0]].inputs[_INPUT] == output else None


def _permuted(graph: GraphEditing, operation: Operation, transposition: Operation, axes: tuple[int, ...]) -> int | None:
    """The weights of an operation for rows in the order before a transposition; None if it does not read such rows."""
    if operation.type not in (OperationType.CONV_2D, OperationType.FULLY_CONNECTED):
        return None
    weights = operation.inputs[_PARAMETER]
    values, given = graph.constants.get(weights), graph.dimensions[operation.inputs[_INPUT]]
    batch, *before = graph.dimensions[transposition.inputs[_INPUT]]
    if values is None or values.shape[-1] != prod(before) or prod(given) != batch * prod(before):
        return None
    is_matrix = prod(values.shape[:-1]) == values.shape[0]
    if operation.type == OperationType.CONV_2D and not (is_matrix and given == (batch, 1, 1, prod(before))):
        return None
    return graph.constant_like(weights, _in_order(values, before, axes))


def _in_order(weights: Array, shape: list[int], axes: tuple[int, ...]) -> Array:
    """Weights whose last axis counts the elements of rows of a shape, from weights for rows with moved axes."""
    moved = weights.reshape(len(weights), *(shape[axis - 1] for axis in axes[1:]))
    back = moved.transpose(0, *(axes.index(axis) for axis in range(1, len(axes))))
    return np.ascontiguousarray(back).reshape(weights.shape)
