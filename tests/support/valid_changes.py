"""Changes that leave an operation valid: other types, and inputs that may be omitted."""

from __future__ import annotations

from collections.abc import Set
from itertools import chain

from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS, Q8C, Q8S, Q16A, QUANT8
from nnhal.types import Model, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import SCALAR_TYPES
from tests.support.mutations import subgraphs

Types = Set[int]
_FILTER = 1
_CONVOLUTIONS = (
    OperationType.CONV_2D,
    OperationType.DEPTHWISE_CONV_2D,
    OperationType.GROUPED_CONV_2D,
    OperationType.TRANSPOSE_CONV_2D,
)
_CONVERTIBLE = frozenset({F16, F32, I32, Q8A})
"""The types that CAST converts into one another."""
_TENSORS = frozenset(code for code in OperandType if code not in SCALAR_TYPES) - {OperandType.SUBGRAPH}
_INPUTS: dict[tuple[int, int], Types] = {
    (OperationType.LSH_PROJECTION, 1): frozenset({F16, F32, I32, Q8A}),
    (OperationType.ARGMAX, 0): _CONVERTIBLE | {Q8AS},
    (OperationType.ARGMIN, 0): _CONVERTIBLE | {Q8AS},
    (OperationType.QUANTIZE, 0): frozenset({F16, F32}),
    (OperationType.RANDOM_MULTINOMIAL, 0): frozenset({F16, F32}),
    (OperationType.DEQUANTIZE, 0): frozenset({Q8A, Q8AS, Q8S, Q8C}),
    (OperationType.RANK, 0): _TENSORS,
}
"""By operation and input, the types that are valid whatever the other operands are."""
_OUTPUTS: dict[int, Types] = {
    OperationType.QUANTIZE: frozenset({Q8A, Q8AS}),
    OperationType.DEQUANTIZE: frozenset({F16, F32}),
}
_FORMS = frozenset({(OperationType.CONV_2D, 10, 7), (OperationType.DEPTHWISE_CONV_2D, 11, 8)})
"""Operation, number of inputs, and the input whose type tells a padding scheme from explicit paddings."""
_LAST_INPUTS: dict[int, tuple[int, ...]] = {
    OperationType.CONV_2D: (8, 11),
    OperationType.DEPTHWISE_CONV_2D: (9, 12),
    OperationType.AVERAGE_POOL_2D: (8, 11),
    OperationType.L2_POOL_2D: (8, 11),
    OperationType.MAX_POOL_2D: (8, 11),
    OperationType.SPACE_TO_DEPTH: (3,),
    OperationType.DEPTH_TO_SPACE: (3,),
    OperationType.BATCH_TO_SPACE_ND: (3,),
    OperationType.SPACE_TO_BATCH_ND: (4,),
    OperationType.L2_NORMALIZATION: (2,),
    OperationType.LOCAL_RESPONSE_NORMALIZATION: (6,),
    OperationType.SOFTMAX: (3,),
}
"""By operation, the numbers of inputs with which the last input is optional."""
_NEXT_COULD_BE_INT32: dict[int, range] = {
    OperationType.L2_NORMALIZATION: range(2),
    OperationType.LOCAL_RESPONSE_NORMALIZATION: range(6),
    OperationType.SOFTMAX: range(3),
    OperationType.RESIZE_BILINEAR: range(6),
    OperationType.RESIZE_NEAREST_NEIGHBOR: range(6),
}
_OUTPUTS_VARY = (
    OperationType.SPLIT,
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN,
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN,
)


def other_types(model: Model, number: int, index: int) -> Types:
    """Return the other types that every operation which uses an operand also takes, given its other operands."""
    graph = subgraphs(model)[number]
    if number and index in (*graph.input_indexes, *graph.output_indexes):
        return frozenset()  # the operation that refers to the subgraph requires this type
    uses = [
        *(_input_types(graph, operation, at) for operation, at in _uses(graph, index)),
        *(_output_types(graph, operation) for operation in graph.operations if index in operation.outputs),
    ]
    return frozenset.intersection(*map(frozenset, uses)) - {graph.operands[index].type}


def unsettled(model: Model, number: int, index: int, code: OperandType) -> bool:
    """Return whether the contract does not specify if a type is valid: signed values in a CAST with another type."""
    operations = subgraphs(model)[number].operations
    casts = [o for o in operations if o.type == OperationType.CAST and index in (*o.inputs, *o.outputs)]
    return code == Q8AS and bool(casts)


def channel_dim_of(model: Model, number: int, index: int) -> int:
    """Return the channel axis that an operand would have if it were quantised per channel."""
    for operation, at in _uses(subgraphs(model)[number], index):
        if (operation.type, at) == (OperationType.DEPTHWISE_CONV_2D, _FILTER):
            return 3
    return 0


def dispensable(operation: Operation, position: int) -> bool:
    """Return whether an operation is also valid without an input."""
    count = len(operation.inputs)
    match operation.type:
        case OperationType.CONCATENATION:
            return count > 2 and position < count - 1
        case OperationType.PACK:
            return count > 2 and position > 0
        case OperationType.RESIZE_BILINEAR | OperationType.RESIZE_NEAREST_NEIGHBOR:
            needed = 3 if operation.type == OperationType.RESIZE_BILINEAR else 4
            return count > needed and position >= 3
        case _:
            return count in _LAST_INPUTS.get(operation.type, ()) and position == count - 1


def may_take_an_integer_more(operation: Operation) -> bool:
    """Return whether an operation is also valid with an INT32 as an additional last input."""
    return len(operation.inputs) in _NEXT_COULD_BE_INT32.get(operation.type, ())


def output_may_be_missing(operation: Operation) -> bool:
    """Return whether the number of an operation's outputs varies."""
    return operation.type in _OUTPUTS_VARY


def _uses(graph: Subgraph, index: int) -> list[tuple[Operation, int]]:
    return list(
        chain.from_iterable(
            ((operation, at) for at, used in enumerate(operation.inputs) if used == index)
            for operation in graph.operations
        )
    )


def _input_types(graph: Subgraph, operation: Operation, position: int) -> Types:
    if operation.type in _CONVOLUTIONS and position == _FILTER:
        main = graph.operands[operation.inputs[0]].type
        return {main, Q8C} if main in QUANT8 else {main}
    if operation.type == OperationType.AXIS_ALIGNED_BBOX_TRANSFORM and position == 1:
        return QUANT8 if graph.operands[operation.inputs[0]].type == Q16A else frozenset()
    if operation.type == OperationType.CAST:
        return _cast_types(graph, operation.outputs[0])
    if (operation.type, len(operation.inputs), position) in _FORMS:
        return {OperandType.BOOL, OperandType.INT32}
    return _INPUTS.get((operation.type, position), frozenset())


def _output_types(graph: Subgraph, operation: Operation) -> Types:
    if operation.type == OperationType.CAST:
        return _cast_types(graph, operation.inputs[0])
    return _OUTPUTS.get(operation.type, frozenset())


def _cast_types(graph: Subgraph, other: int) -> Types:
    return _CONVERTIBLE if graph.operands[other].type in _CONVERTIBLE else frozenset()
