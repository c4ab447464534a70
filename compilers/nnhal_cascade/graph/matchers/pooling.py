"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN: values of one channel become one."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal_cascade.geometry.access import AxisAccess
from nnhal_cascade.geometry.accesses import Everything, OneToOne
from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartKind
from nnhal_cascade.graph.matchers.match import (
    MAX_RANK,
    Match,
    Reading,
    fused,
    require_channels_last,
    shape_of,
)
from nnhal_cascade.graph.matchers.windows import kernel_of, read_through


def match_pooling(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a pooling, which goes channel by channel."""
    window, given = window_of(op), shape_of(op, Implicit.INPUT)
    require_channels_last(op, window.channels_first)
    reading = read_through(window, given, OneToOne(given.channels))
    kernel = kernel_of(window, outputs[0])
    return (Match(PartKind.POOLING, (reading,), kernel, activation=fused(window.activation)),)


def match_mean(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a mean: over rows and columns it is a pooling with one window, over channels a sum.

    An axis is read element by element if it is not averaged and is the same axis of the output. It is another one if
    averaged axes before it have been dropped.
    """
    given = shape_of(op, MeanInput.INPUT)
    missing = MAX_RANK - len(op.dimensions(MeanInput.INPUT))
    averaged = {Axis(axis + missing - 1) for axis in axes_of_mean(op) if axis + missing > 0}
    kept = Shape(*(1 if axis in averaged else given[axis] for axis in Axis))
    same_axes = kept == outputs[0]

    def access(axis: Axis) -> AxisAccess:
        return OneToOne(given[axis]) if same_axes and axis not in averaged else Everything(given[axis])

    reading = Reading(MeanInput.INPUT, *(access(axis) for axis in Axis))
    if Axis.CHANNELS in averaged:
        return (Match(PartKind.REDUCE_SUM, (reading,)),)
    height, width = (given[axis] if axis in averaged else 1 for axis in (Axis.ROWS, Axis.COLUMNS))
    return (Match(PartKind.POOLING, (reading,), Kernel(height, width)),)
