"""RESHAPE, SQUEEZE and EXPAND_DIMS: other dimensions, the same elements."""

from __future__ import annotations

from nnhal.operations._shape import axis_of
from nnhal.operations.shape import ExpandDimsInput, ReshapeInput, SqueezeInput
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def reshape(to: Emitter) -> None:
    """The shape is a constant; -1 means the same as in ONNX."""
    shape = to.graph.integers(to.op.integers(ReshapeInput.SHAPE))
    to.keep(to.graph.add("Reshape", to.kept(ReshapeInput.INPUT), shape))


def squeeze(to: Emitter) -> None:
    """Drop the given axes, or all of length 1. At least one axis is left."""
    dimensions = to.op.ranked(SqueezeInput.INPUT)
    axes = [axis for axis, length in enumerate(dimensions) if length == 1]
    if to.op.has(SqueezeInput.AXES):
        axes = sorted({axis_of(to.op, axis, len(dimensions)) for axis in to.op.integers(SqueezeInput.AXES)})
    if len(axes) == len(dimensions):
        axes = axes[1:]
    tensor = to.kept(SqueezeInput.INPUT)
    to.keep(to.graph.add("Squeeze", tensor, to.graph.integers(axes)) if axes else tensor)


def expand_dims(to: Emitter) -> None:
    """The axis is one of the output's."""
    rank = len(to.op.ranked(ExpandDimsInput.INPUT)) + 1
    axis = axis_of(to.op, to.op.integer(ExpandDimsInput.AXIS), rank)
    to.keep(to.graph.add("Unsqueeze", to.kept(ExpandDimsInput.INPUT), to.graph.integers([axis])))
