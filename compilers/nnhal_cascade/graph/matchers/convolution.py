"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV_2D and FULLY_CONNECTED."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnhal.operations import OperationContext
from nnhal.operations._convolution import BIAS, FILTER, INPUT
from nnhal.operations._window import Axis, activation_of
from nnhal.operations.convolution import window_of_conv_2d, window_of_depthwise_conv_2d, window_of_transpose_conv_2d
from nnhal.operations.matrix import FullyConnectedInput
from nnhal_cascade.geometry.accesses import Everything, Grouped, OneToOne, ZeroInserted
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartConstants, PartKind
from nnhal_cascade.graph.matchers.match import (
    Match,
    Reading,
    fused,
    require_channels_last,
    shape_of,
)
from nnhal_cascade.graph.matchers.windows import kernel_of, read_through

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

    def inserted(axis: Axis, length: int) -> ZeroInserted:
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
