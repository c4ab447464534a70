"""Operations that change dimensions and no values.

RESHAPE: the same elements in other dimensions.

SQUEEZE: a tensor without given axes of one element.

EXPAND_DIMS: a new axis of one element.

RANK: the number of a tensor's axes, as a scalar.
"""

from __future__ import annotations

from math import prod

from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, reduced, require_input_quantization
from nnhal.operations.layout_rules import FollowsOrder, ReadsFlat, Rewritten, int32
from nnhal.operations.operand_types import B8, F16, F32, I32, INT32, Q8A, Q8AS, Q8C, Q8S, Q16A, Q16S, QUANT8
from nnhal.operations.operands import Inputs, same, scalar, signature, tensor
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, describe
from nnhal.types.orders import Order, without


class ReshapeInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 6}, rank=(1, 4)), "Rank 1 to 4."
    SHAPE = tensor({I32: 1}, rank=1), "[rank of the output]; one number may be -1."


def prepare_reshape(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the requested dimensions. One of them may be -1: it is computed from the number of elements."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    shape = op.integers(ReshapeInput.SHAPE)
    if min(shape, default=0) < -1 or shape.count(-1) > 1 or not shape:
        op.refuse(f"shape {list(shape)}, expected lengths of 0 or more, of which one may be -1")
    given = op.ranked(ReshapeInput.INPUT, (1, 4))
    fixed = prod(length for length in shape if length != -1)
    if 0 in given and not op.executing:
        return (tuple(max(length, 0) for length in shape),)
    elements = prod(given)
    if -1 in shape and fixed and elements % fixed == 0:
        return (tuple(elements // fixed if length == -1 else length for length in shape),)
    if -1 in shape or elements != fixed:
        op.refuse(
            f"the input has dimensions {describe(given)}, expected as many elements as the shape {list(shape)} has"
        )
    return (shape,)


RESHAPE = OperationDefinition(
    OperationType.RESHAPE, 1, signature(ReshapeInput, same()), prepare_reshape, layout=ReadsFlat()
)


class SqueezeInput(Inputs):
    INPUT = tensor({F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    AXES = tensor({I32: 1}, rank=1, optional=True), "[axes]; all of length 1 by default."


def prepare_squeeze(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the given axes, or without all of length 1. At least one axis remains."""
    require_input_quantization(op)
    dimensions = op.ranked(SqueezeInput.INPUT, (1, 4))
    if not op.has(SqueezeInput.AXES):
        return (tuple(length for length in op.known_dimensions(SqueezeInput.INPUT) if length != 1) or (1,),)
    axes = {axis_of(op, axis, len(dimensions)) for axis in op.integers(SqueezeInput.AXES)}
    for axis in axes:
        if dimensions[axis] != 1 and (dimensions[axis] or op.executing):
            op.refuse(f"axis {axis} has {dimensions[axis]} elements, expected 1")
    return (reduced(dimensions, axes, keep=False),)


def _squeezed(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite SQUEEZE: without axes it drops those of length 1."""
    if not op.has(SqueezeInput.AXES):
        lengths = op.known_dimensions(SqueezeInput.INPUT)
        return Rewritten((without(order, [axis for axis, length in enumerate(lengths) if length == 1]),), {})
    axes = {axis % len(order) for axis in op.integers(SqueezeInput.AXES)}
    moved = int32(sorted(order.index(axis) for axis in axes))
    return Rewritten((without(order, axes),), {SqueezeInput.AXES: moved})


SQUEEZE = OperationDefinition(
    OperationType.SQUEEZE, 2, signature(SqueezeInput, same()), prepare_squeeze, layout=FollowsOrder(_squeezed)
)


class ExpandDimsInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    AXIS = scalar(INT32), "From -(rank + 1) to rank."


def prepare_expand_dims(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with a 1 at the axis, which is an axis of the output."""
    require_input_quantization(op)
    dimensions = op.ranked(ExpandDimsInput.INPUT)
    axis = axis_of(op, op.integer(ExpandDimsInput.AXIS), len(dimensions) + 1)
    return ((*dimensions[:axis], 1, *dimensions[axis:]),)


EXPAND_DIMS = OperationDefinition(OperationType.EXPAND_DIMS, 3, signature(ExpandDimsInput, same()), prepare_expand_dims)


class RankInput(Inputs):
    INPUT = tensor(dict.fromkeys((F16, F32, I32, Q8A, Q16S, B8, Q8C, Q16A, Q8S, Q8AS), 4)), "Any rank."


def prepare_rank(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a scalar: none."""
    op.ranked(RankInput.INPUT)
    return ((),)


RANK = OperationDefinition(OperationType.RANK, 4, signature(RankInput, tensor({INT32: 1})), prepare_rank)
