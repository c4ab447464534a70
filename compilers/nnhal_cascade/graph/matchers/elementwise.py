"""Element-wise operations of one and of two tensors, activations, and SOFTMAX."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.activation import SoftmaxInput
from nnhal.operations.dimensions import axis_of
from nnhal.operations.elementwise import BinaryInput, PairwiseInput
from nnhal.operations.windows import activation_of
from nnhal.types import OperationType
from nnhal_cascade.geometry.accesses import AxisAccess, Everything, OneToOne, Single
from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import Activation, PartKind
from nnhal_cascade.graph.matchers.match import (
    MAX_RANK,
    Match,
    Matcher,
    Reading,
    constant_operands,
    fused,
    shape_of,
)

_SOFTMAX_PASSES = 6
"""Over all elements: largest value, difference with the table of exp, shift, sum, product with the reciprocal of the
sum, shift. The reciprocal itself takes one element for each sum."""
_PRELU_PASSES = 4
"""Negative values, their product with alpha, positive values, the sum of both."""


def match_arithmetic(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match ADD, SUB and MUL, which have a fused activation."""
    return (_pair(op, outputs[0], fused(activation_of(op, BinaryInput.ACTIVATION))),)


def match_pair(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match an operation on two tensors that broadcast."""
    return (_pair(op, outputs[0]),)


def match_prelu(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match PRELU. With one constant for all elements it is a table."""
    if has_one_slope(op):
        return (match_table(outputs[0]),)
    return (_pair(op, outputs[0], passes=_PRELU_PASSES),)


def has_one_slope(op: OperationContext) -> bool:
    """Return whether an operation is PRELU with one constant for all elements."""
    alpha = PairwiseInput.SECOND
    return op.type == OperationType.PRELU and op.is_known(alpha) and shape_of(op, alpha).elements == 1


def match_activation(activation: Activation) -> Matcher:
    """Return the matcher of an activation that is an operation of its own."""

    def match(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
        del op
        return (_unary(outputs[0], activation),)

    return match


def match_table(shape: Shape) -> Match:
    """Match a function of one tensor's elements."""
    return _unary(shape, Activation.TABLE)


def match_pair_of(given: Sequence[Shape], output: Shape, passes: int) -> Match:
    """Match a function of two tensors' elements, which broadcast."""
    readings = (
        Reading(position, *(_access(*each) for each in zip(shape, output, strict=True)))
        for position, shape in enumerate(given)
    )
    return Match(PartKind.ELEMENTWISE, tuple(readings), passes=passes)


def match_softmax(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SOFTMAX, which needs all elements along its axis."""
    rank = len(op.dimensions(SoftmaxInput.INPUT))
    whole = axis_of(op, op.integer(SoftmaxInput.AXIS, default=-1), rank) + MAX_RANK - rank - 1
    shape = outputs[0]
    accesses = (Everything(shape[axis]) if axis == whole else OneToOne(shape[axis]) for axis in Axis)
    return (Match(PartKind.ELEMENTWISE, (Reading(SoftmaxInput.INPUT, *accesses),), passes=_SOFTMAX_PASSES),)


def _unary(shape: Shape, activation: Activation) -> Match:
    reading = Reading(0, *(OneToOne(extent) for extent in shape))
    return Match(PartKind.ELEMENTWISE, (reading,), activation=activation)


def _pair(op: OperationContext, output: Shape, activation: Activation = Activation.NONE, passes: int = 1) -> Match:
    both = BinaryInput.FIRST, BinaryInput.SECOND
    return Match(
        PartKind.ELEMENTWISE,
        tuple(_broadcast(op, position, output) for position in both if not op.is_known(position)),
        constants=constant_operands(op, both, output),
        activation=activation,
        passes=passes,
    )


def _broadcast(op: OperationContext, position: int, output: Shape) -> Reading:
    return Reading(position, *(_access(*each) for each in zip(shape_of(op, position), output, strict=True)))


def _access(given: int, wanted: int) -> AxisAccess:
    return Single() if given == 1 < wanted else OneToOne(given)
