"""Optional arguments at the end of an operation's inputs that have their default values.

NNAPI's runtime removes them before a device sees the model, so that a device that does not know them takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.operations.convolution import CONV_2D_FORMS, DEPTHWISE_CONV_2D_FORMS
from nnhal.operations.pooling import FORMS
from nnhal.operations.windows import Forms
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, Operation, OperationType

_Defaults = tuple[tuple[int, ...], ...]
"""Groups of arguments that come and go together."""

_LAYOUT: _Defaults = ((0,),)
_LAYOUT_AND_DILATION: _Defaults = ((0,), (1, 1))
_LAST_AXIS: _Defaults = ((-1,),)

_WINDOWS: Mapping[int, tuple[Forms, _Defaults]] = {
    OperationType.AVERAGE_POOL_2D: (FORMS, _LAYOUT),
    OperationType.L2_POOL_2D: (FORMS, _LAYOUT),
    OperationType.MAX_POOL_2D: (FORMS, _LAYOUT),
    OperationType.CONV_2D: (CONV_2D_FORMS, _LAYOUT_AND_DILATION),
    OperationType.DEPTHWISE_CONV_2D: (DEPTHWISE_CONV_2D_FORMS, _LAYOUT_AND_DILATION),
}
"""Operations whose optional arguments begin with the layout, wherever their form has it."""

_OTHERS: Mapping[int, tuple[int, _Defaults]] = {
    OperationType.BATCH_TO_SPACE_ND: (2, _LAYOUT),
    OperationType.DEPTH_TO_SPACE: (2, _LAYOUT),
    OperationType.L2_NORMALIZATION: (1, _LAST_AXIS),
    OperationType.LOCAL_RESPONSE_NORMALIZATION: (5, _LAST_AXIS),
    OperationType.RESIZE_BILINEAR: (3, ((0,), (0,), (0,))),
    OperationType.RESIZE_NEAREST_NEIGHBOR: (4, ((0,), (0,))),
    OperationType.SOFTMAX: (2, _LAST_AXIS),
    OperationType.SPACE_TO_BATCH_ND: (3, _LAYOUT),
    OperationType.SPACE_TO_DEPTH: (2, _LAYOUT),
}
"""The index of the first optional argument, and the defaults from there on."""


def without_trailing_defaults(resolved: ResolvedModel) -> Model:
    """The model without optional arguments at the end that are constant and have their documented defaults.

    The model must be valid. All operands are kept, so that their indexes stay valid.
    """
    main, *referenced = (
        replace(
            graph,
            operations=tuple(_trimmed(resolved, number, index) for index in range(len(graph.operations))),
        )
        for number, graph in enumerate(resolved.subgraphs)
    )
    return replace(resolved.model, main=main, referenced=tuple(referenced))


def _trimmed(resolved: ResolvedModel, subgraph: int, index: int) -> Operation:
    operation = resolved.subgraphs[subgraph].operations[index]
    start, groups = _optional(resolved, subgraph, index, operation)
    length = len(operation.inputs)
    starts = [start + sum(map(len, groups[:number])) for number in range(len(groups))]
    for first, group in reversed(list(zip(starts, groups, strict=True))):
        if length == first + len(group) and _values(resolved, subgraph, operation.inputs[first:length]) == group:
            length = first
    return operation if length == len(operation.inputs) else replace(operation, inputs=operation.inputs[:length])


def _optional(resolved: ResolvedModel, subgraph: int, index: int, operation: Operation) -> tuple[int, _Defaults]:
    if operation.type in _WINDOWS:
        forms, groups = _WINDOWS[operation.type]
        return int(forms.of(resolved.context(subgraph, index))["LAYOUT"]), groups
    return _OTHERS.get(operation.type, (0, ()))


def _values(resolved: ResolvedModel, subgraph: int, operands: Sequence[int]) -> tuple[int, ...] | None:
    constants = resolved.constants[subgraph]
    if not all(operand in constants for operand in operands):
        return None
    return tuple(int(constants[operand]) for operand in operands)
