"""Windows over rows and columns: convolutions, poolings and reductions; FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnhal.operations import OperationContext
from nnhal.operations.convolution import window_of_conv_2d, window_of_depthwise_conv_2d, window_of_transpose_conv_2d
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.matrix import BatchMatmulInput, FullyConnectedInput
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean, axes_of_reduce
from nnhal.operations.windows import Axis as WindowAxis
from nnhal.operations.windows import Window, activation_of
from nnhal.types import OperationType
from nnhal_cascade.geometry.accesses import AxisAccess, Everything, Grouped, OneToOne, Windowed, ZeroInserted
from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartConstants, PartKind
from nnhal_cascade.graph.matchers.match import (
    MAX_RANK,
    Match,
    Reading,
    fused,
    require_channels_last,
    shape_of,
)


def windowed(axis: WindowAxis, length: int) -> Windowed:
    """Return the dependency along an axis of ``length`` elements of the input."""
    return Windowed(length, axis.size, axis.stride, axis.dilation, axis.before)


def read_through(window: Window, given: Shape, channels: AxisAccess) -> Reading:
    """Return the reading of an operation's first input through a window."""
    return Reading(0, windowed(window.height, given.rows), windowed(window.width, given.columns), channels)


def kernel_of(window: Window, output: Shape) -> Kernel:
    """Return a window as a kernel. A stride means nothing along an axis with a single window, and is 1 there."""
    height, width = window.height, window.width
    down = height.stride if output.rows > 1 else 1
    right = width.stride if output.columns > 1 else 1
    return Kernel(height.size, width.size, down, right, height.dilation, width.dilation)


_PASSES_OF_A_PRODUCT = 2
"""For each element that is summed up: a product and a sum."""
_SCALE_BYTES = 10
"""Bias, scale and shift of one channel, as Ethos-U packs them."""


def match_conv_2d(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a convolution, which reads all channels for each of its own."""
    window, given = window_of_conv_2d(op), shape_of(op, INPUT)
    require_channels_last(op, window.channels_first)
    reading = read_through(window, given, Everything(given.channels))
    constants = _constants(op, prod(op.dimensions(FILTER)[1:]))
    kernel = kernel_of(window, outputs[0])
    return (Match(PartKind.CONVOLUTION, (reading,), kernel, constants, fused(window.activation)),)


def match_depthwise_conv_2d(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a depthwise convolution. If its filters share a single channel, it is a convolution for the NPU."""
    window, given = window_of_depthwise_conv_2d(op), shape_of(op, INPUT)
    require_channels_last(op, window.channels_first)
    shared = given.channels == 1 and outputs[0].channels > 1
    channels = Everything(1) if shared else Grouped(given.channels, 1, window.multiplier)
    return (
        Match(
            PartKind.CONVOLUTION if shared else PartKind.DEPTHWISE,
            (read_through(window, given, channels),),
            kernel_of(window, outputs[0]),
            _constants(op, prod(op.dimensions(FILTER)[1:3])),
            fused(window.activation),
        ),
    )


def match_transpose_conv_2d(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a transpose convolution: a convolution of stride 1 over the input with zeros between its elements."""
    del outputs
    window, given = window_of_transpose_conv_2d(op), shape_of(op, INPUT)
    require_channels_last(op, window.channels_first)
    height, width = window.height, window.width

    def inserted(axis: WindowAxis, length: int) -> ZeroInserted:
        return ZeroInserted(length, axis.size, axis.stride, axis.before)

    return (
        Match(
            PartKind.TRANSPOSE_CONVOLUTION,
            (Reading(INPUT, inserted(height, given.rows), inserted(width, given.columns), Everything(given.channels)),),
            Kernel(height.size, width.size, upscale=max(height.stride, width.stride)),
            _constants(op, prod(op.dimensions(FILTER)[1:])),
            fused(window.activation),
        ),
    )


def match_fully_connected(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a product of rows with a matrix. Rows that are the columns of the input are independent."""
    given, size = shape_of(op, INPUT), op.dimensions(FILTER)[1]
    row_by_row = given == Shape(1, outputs[0].columns, size)
    columns = OneToOne(given.columns) if row_by_row else Everything(given.columns)
    return (
        Match(
            PartKind.VECTOR_PRODUCT,
            (Reading(INPUT, Everything(given.rows), columns, Everything(given.channels)),),
            constants=_constants(op, size),
            activation=fused(activation_of(op, FullyConnectedInput.ACTIVATION)),
        ),
    )


def _constants(op: OperationContext, weight_bytes: int) -> PartConstants:
    """Return the constants of one channel. Raises UnknownYet if they are none."""
    for position in (FILTER, BIAS):
        op.value(position)
    return PartConstants(weight_bytes, _SCALE_BYTES)


def match_pooling(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a pooling, which goes channel by channel."""
    window, given = window_of(op), shape_of(op, Implicit.INPUT)
    require_channels_last(op, window.channels_first)
    reading = read_through(window, given, OneToOne(given.channels))
    kernel = kernel_of(window, outputs[0])
    return (Match(PartKind.POOLING, (reading,), kernel, activation=fused(window.activation)),)


def match_batch_matmul(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match products of matrices that are both computed.

    The NPU multiplies by elements: for each column of the result, a row of the second matrix with all of the first.
    """
    del outputs
    first, second = (shape_of(op, position) for position in (BatchMatmulInput.FIRST, BatchMatmulInput.SECOND))
    kept = Axis.CHANNELS if op.boolean(BatchMatmulInput.TRANSPOSE_FIRST) else Axis.COLUMNS
    columns = OneToOne(first.columns) if kept == Axis.COLUMNS else Everything(first.columns)
    shared = op.boolean(BatchMatmulInput.TRANSPOSE_SECOND)
    channels = Everything(second.channels) if shared else OneToOne(second.channels)
    readings = (
        Reading(BatchMatmulInput.FIRST, OneToOne(first.rows), columns, Everything(first.channels)),
        Reading(BatchMatmulInput.SECOND, OneToOne(second.rows), Everything(second.columns), channels),
    )
    summed = first.channels if kept == Axis.COLUMNS else first.columns
    return (Match(PartKind.ELEMENTWISE, readings, passes=_PASSES_OF_A_PRODUCT * summed),)


def match_reduction(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match a mean, a sum or an extremum: over rows and columns a pooling with one window, over channels a sum.

    An axis is read element by element if it is not averaged and is the same axis of the output. It is another one if
    averaged axes before it have been dropped.
    """
    given = shape_of(op, MeanInput.INPUT)
    missing = MAX_RANK - len(op.dimensions(MeanInput.INPUT))
    axes = axes_of_mean(op) if op.type == OperationType.MEAN else axes_of_reduce(op)
    averaged = {Axis(axis + missing - 1) for axis in axes if axis + missing > 0}
    kept = Shape(*(1 if axis in averaged else given[axis] for axis in Axis))
    same_axes = kept == outputs[0]

    def access(axis: Axis) -> AxisAccess:
        return OneToOne(given[axis]) if same_axes and axis not in averaged else Everything(given[axis])

    reading = Reading(MeanInput.INPUT, *(access(axis) for axis in Axis))
    if Axis.CHANNELS in averaged:
        return (Match(PartKind.REDUCE_SUM, (reading,)),)
    height, width = (given[axis] if axis in averaged else 1 for axis in (Axis.ROWS, Axis.COLUMNS))
    return (Match(PartKind.POOLING, (reading,), Kernel(height, width)),)
