"""Reductions: along axes, to indexes of extrema, to the largest values.

REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD and REDUCE_SUM: the elements along given axes, put together.

MEAN: the average over axes.

ARGMAX and ARGMIN: the index of the largest or smallest element along an axis.

TOPK_V2: the k largest elements along the last axis in descending order, and their indices.
"""

from __future__ import annotations

from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, reduced, require_input_quantization
from nnhal.operations.layout_rules import extremum_along, over_axes
from nnhal.operations.operand_types import B8, BOOL, F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.operands import Inputs, Levels, same, scalar, signature, tensor
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class ReduceInput(Inputs):
    INPUT = tensor({B8: 3, F16: 3, F32: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4)), "Any rank."
    AXES = tensor({I32: 1}, rank=1), "[axes], each from -rank to rank - 1."
    KEEP_DIMS = scalar(BOOL), "True if the axes stay, with length 1."


def axes_of_reduce(op: OperationContext) -> tuple[int, ...]:
    """Return the axes to reduce, in ascending order, each once."""
    rank = len(op.ranked(ReduceInput.INPUT, (1, 4)))
    return tuple(sorted({axis_of(op, axis, rank) for axis in op.integers(ReduceInput.AXES)}))


def prepare_reduce(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the reduced axes, or with 1 in their place. At least one axis remains."""
    require_input_quantization(op)
    return (reduced(op.ranked(ReduceInput.INPUT), axes_of_reduce(op), op.boolean(ReduceInput.KEEP_DIMS)),)


_REDUCES = over_axes(axes_of_reduce, ReduceInput.AXES, lambda op: op.boolean(ReduceInput.KEEP_DIMS))


def _definition(kind: OperationType, types: Levels) -> OperationDefinition:
    """Define a reduction. Truth values have no rule for layouts, since TRANSPOSE does not take them."""
    validate = signature(ReduceInput, same(), types=types)
    return OperationDefinition(kind, 3, validate, prepare_reduce, layout=None if B8 in types else _REDUCES)


REDUCE_ALL = _definition(OperationType.REDUCE_ALL, {B8: 3})
REDUCE_ANY = _definition(OperationType.REDUCE_ANY, {B8: 3})
REDUCE_MAX = _definition(OperationType.REDUCE_MAX, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})
REDUCE_MIN = _definition(OperationType.REDUCE_MIN, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})
REDUCE_PROD = _definition(OperationType.REDUCE_PROD, {F16: 3, F32: 3})
REDUCE_SUM = _definition(OperationType.REDUCE_SUM, {F16: 3, F32: 3})


class MeanInput(Inputs):
    """The inputs. If KEEP is above 0, the axes are kept with length 1."""

    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    AXES = tensor({I32: 1}, rank=1), "[axes], each from -rank to rank - 1."
    KEEP = scalar(INT32), "Above 0: the axes stay, with length 1."


def axes_of_mean(op: OperationContext) -> tuple[int, ...]:
    """Return the axes to average over, in [0, rank), each once. Raises UnknownYet."""
    rank = len(op.ranked(MeanInput.INPUT, (1, 4)))
    return tuple(sorted({axis_of(op, axis, rank) for axis in op.integers(MeanInput.AXES)}))


def prepare_mean(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the axes, or with 1 for each of them."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    dimensions, axes = op.ranked(MeanInput.INPUT, (1, 4)), axes_of_mean(op)
    return (reduced(dimensions, axes, op.integer(MeanInput.KEEP) > 0),)


MEAN = OperationDefinition(
    OperationType.MEAN,
    2,
    signature(MeanInput, same(rank=(1, 4))),
    prepare_mean,
    layout=over_axes(axes_of_mean, MeanInput.AXES, lambda op: op.integer(MeanInput.KEEP) > 0),
)


class ArgExtremumInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    AXIS = scalar(INT32), "From -rank to rank - 1."


def prepare_arg_extremum(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the axis; [1] for a vector."""
    dimensions = op.ranked(ArgExtremumInput.INPUT)
    axis = axis_of(op, op.integer(ArgExtremumInput.AXIS), len(dimensions))
    if op.executing and dimensions[axis] == 0:
        op.refuse(f"axis {axis} has no elements, expected at least 1")
    return (reduced(dimensions, {axis}, keep=False),)


_ARG_EXTREMUM_SIGNATURE = signature(ArgExtremumInput, tensor({I32: 1}))
ARGMAX = OperationDefinition(
    OperationType.ARGMAX, 3, _ARG_EXTREMUM_SIGNATURE, prepare_arg_extremum, layout=extremum_along(ArgExtremumInput.AXIS)
)
ARGMIN = OperationDefinition(
    OperationType.ARGMIN, 3, _ARG_EXTREMUM_SIGNATURE, prepare_arg_extremum, layout=extremum_along(ArgExtremumInput.AXIS)
)


class TopkV2Input(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    K = scalar(INT32), "At most the length of the last axis."


def prepare_topk_v2(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with k as the last one, for the values and for their indices."""
    require_input_quantization(op)
    dimensions, k = op.ranked(TopkV2Input.INPUT), op.integer(TopkV2Input.K)
    if k < 1 or (k > dimensions[-1] and (dimensions[-1] or op.executing)):
        op.refuse(f"k is {k}, expected 1 to {dimensions[-1]}, the length of the last axis")
    return ((*dimensions[:-1], k),) * 2


TOPK_V2 = OperationDefinition(
    OperationType.TOPK_V2, 3, signature(TopkV2Input, same(), tensor({I32: 1})), prepare_topk_v2
)
