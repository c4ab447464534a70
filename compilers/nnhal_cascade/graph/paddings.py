"""Paddings that become those of the convolutions behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext
from nnhal.operations.convolution import (
    Conv2dExplicit,
    DepthwiseConv2dExplicit,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
)
from nnhal.operations.movement import PadInput, paddings_of_pad
from nnhal.operations.windows import Axis, Window
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Operand, OperandLifeTime, OperandType, Operation, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions

_CONVOLUTIONS = {
    OperationType.CONV_2D: (window_of_conv_2d, Conv2dExplicit),
    OperationType.DEPTHWISE_CONV_2D: (window_of_depthwise_conv_2d, DepthwiseConv2dExplicit),
}
"""The window of each, and the inputs of its form with explicit padding."""
_PADS = frozenset({OperationType.PAD, OperationType.PAD_V2})
_TENSORS = 3
"""Input, filter and bias come first in every form of a convolution."""

Paddings = tuple[tuple[int, int], tuple[int, int]]
"""Before and after, of height and width."""


def fold_paddings(model: ResolvedModel) -> ResolvedModel:
    """Return a model whose convolutions read what a PAD reads, with its paddings in their explicit form.

    That is the same to the bit, since a convolution sees the zero point beyond the border. Operations keep their
    numbers: a PAD that nobody reads any more stays among them. A PAD stays as it is if it pads channels, has another
    value, or is as large as the filter.

    Raises HalError if dimensions contradict one another, UnknownYet if an operation's parameters are no constants.
    """
    return _Folding(model).folded()


class _Folding:
    """A model with what is added to it."""

    def __init__(self, model: ResolvedModel) -> None:
        self._model = model
        self._main = model.model.main
        self._pads = {
            operation.outputs[0]: number
            for number, operation in enumerate(self._main.operations)
            if operation.type in _PADS
        }
        self._dimensions: tuple[Dimensions, ...] = propagate_dimensions(model) if self._pads else ()
        self._operands = list(self._main.operands)
        self._constants: dict[int, Array] = dict(model.constants[0])

    def folded(self) -> ResolvedModel:
        operations = tuple(
            self._convolution(number, operation)
            if operation.type in _CONVOLUTIONS and operation.inputs[0] in self._pads
            else operation
            for number, operation in enumerate(self._main.operations)
        )
        if operations == self._main.operations:
            return self._model
        main = replace(self._main, operands=tuple(self._operands), operations=operations)
        model = replace(self._model.model, main=main)
        return ResolvedModel(model, (self._constants, *self._model.constants[1:]), self._model.names)

    def _convolution(self, number: int, operation: Operation) -> Operation:
        window_of, explicit = _CONVOLUTIONS[OperationType(operation.type)]
        window = window_of(self._model.context(0, number, self._dimensions))
        before = self._pads[operation.inputs[0]]
        added = _paddings(self._model.context(0, before, self._dimensions))
        if added is None or window.channels_first:
            return operation
        height, width = (_widened(axis, *each) for axis, each in zip((window.height, window.width), added, strict=True))
        if max(height.before, height.after) >= height.reach or max(width.before, width.after) >= width.reach:
            return operation
        values = _explicit(window._replace(height=height, width=width))
        tensors = self._main.operations[before].inputs[0], *operation.inputs[1:_TENSORS]
        scalars = (self._scalar(values[name.name]) for name in list(explicit)[_TENSORS:])
        return replace(operation, inputs=(*tensors, *scalars))

    def _scalar(self, value: int | bool) -> int:
        kind = OperandType.BOOL if isinstance(value, bool) else OperandType.INT32
        self._constants[len(self._operands)] = np.array(value, ELEMENT_TYPES[kind])
        self._operands.append(Operand(kind, lifetime=OperandLifeTime.CONSTANT_COPY))
        return len(self._operands) - 1


def _paddings(op: OperationContext) -> Paddings | None:
    """Return what a PAD adds to the height and width of an image, None if it adds anything else."""
    given = op.inputs[PadInput.INPUT]
    if op.type == OperationType.PAD_V2 and op.integer(PadInput.VALUE) != given.zero_point:
        return None
    batch, height, width, channels = paddings_of_pad(op)
    return (height, width) if batch == channels == (0, 0) else None


def _widened(axis: Axis, before: int, after: int) -> Axis:
    return axis._replace(before=axis.before + before, after=axis.after + after)


def _explicit(window: Window) -> Mapping[str, int | bool]:
    """The scalars of a convolution with explicit paddings, by name."""
    height, width = window.height, window.width
    return {
        "PADDING_LEFT": width.before,
        "PADDING_RIGHT": width.after,
        "PADDING_TOP": height.before,
        "PADDING_BOTTOM": height.after,
        "STRIDE_WIDTH": width.stride,
        "STRIDE_HEIGHT": height.stride,
        "MULTIPLIER": window.multiplier,
        "ACTIVATION": int(window.activation),
        "LAYOUT": False,
        "DILATION_WIDTH": width.dilation,
        "DILATION_HEIGHT": height.dilation,
    }
