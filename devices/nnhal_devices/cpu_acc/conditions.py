"""Conditions of single operations on cpu_acc, beside types and constants: each may raise UnknownYet."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.operations import OperationContext, type_name
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import SlicingInput, StridedSliceInput, prepare_slicing, ranges_of, strided_slices
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.movement import (
    MirrorPadInput,
    MirrorPadMode,
    TileInput,
)
from nnhal.operations.normalization import InstanceNormalizationInput, LocalResponseNormalizationInput
from nnhal.operations.operand_types import F16, F32, I32
from nnhal.operations.pooling import window_of
from nnhal.operations.shape import ReshapeInput
from nnhal.operations.windows import SAME, Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.rules import Check
from nnhal.types.layout import describe

_FAR = 1024
"""The largest radius over an unknown number of channels: ONNX Runtime takes memory for all of it."""


def reshaped(op: OperationContext) -> Support:
    """ONNX's Reshape finds one length out by itself."""
    dimensions = op.dimensions(0)
    if dimensions.count(0) > 1:
        return Unsupported("DYN_SHAPE", describe(dimensions), "at most one unknown length")
    return SUPPORTED


def on_images(op: OperationContext) -> Support:
    dimensions = op.dimensions(0)
    if 0 in dimensions[1:]:
        return Unsupported("DYN_SHAPE", describe(dimensions), "images of known dimensions; their number may be unknown")
    return SUPPORTED


def normalized(op: OperationContext) -> Support:
    epsilon = op.real(InstanceNormalizationInput.EPSILON)
    if not epsilon >= 0:
        return Unsupported("KERNEL", f"epsilon {epsilon}", "0 or more", "the root of a negative variance is undefined")
    return on_images(op)


def windowed(window_of: Callable[[OperationContext], Window]) -> Check:
    def check(op: OperationContext) -> Support:
        window, given = window_of(op), op.dimensions(0)
        height, width = (2, 3) if window.channels_first else (1, 2)
        if window.scheme == SAME and 0 in (given[height], given[width]):
            return Unsupported("DYN_SHAPE", describe(given), "a known height and width", "padding SAME depends on them")
        return SUPPORTED

    return check


def pooled(op: OperationContext) -> Support:
    window = window_of(op)
    for axis in (window.height, window.width):
        if max(axis.before, axis.after) >= axis.size:
            got = f"paddings {axis.before} and {axis.after} of a window of {axis.size}"
            return Unsupported("KERNEL", got, "paddings that are smaller than the window")
    return windowed(window_of)(op)


def with_shape(op: OperationContext) -> Support:
    shape = op.integers(ReshapeInput.SHAPE)
    if 0 in shape:
        return Unsupported("SHAPE", f"shape {list(shape)}", "lengths above 0, of which one may be -1")
    return SUPPORTED


def with_known_weights(op: OperationContext) -> Support:
    op.known_dimensions(FullyConnectedInput.WEIGHTS)
    return SUPPORTED


def sliced(op: OperationContext) -> Support:
    """An unknown length of the result may be that of all the rest of an axis."""
    sizes, lengths = op.integers(SlicingInput.SIZE), op.dimensions(SlicingInput.INPUT)
    results = zip(sizes, lengths, prepare_slicing(op)[0], strict=True)
    return _elements(all(result or (size and not length) for size, length, result in results))


def sliced_in_strides(op: OperationContext) -> Support:
    lengths = op.dimensions(StridedSliceInput.INPUT)
    kept = zip(ranges_of(strided_slices(op), lengths), lengths, strict=True)
    return _elements(all(indices or not length for indices, length in kept))


def tiled(op: OperationContext) -> Support:
    return _elements(0 not in op.integers(TileInput.MULTIPLES))


def _elements(some: bool) -> Support:
    return SUPPORTED if some else Unsupported("SHAPE", "a result of no elements", "at least one element")


def mirrored(op: OperationContext) -> Support:
    mode = MirrorPadMode(op.integer(MirrorPadInput.MODE))
    if mode is not MirrorPadMode.REFLECT:
        return Unsupported("KERNEL", f"mode {mode.name}", MirrorPadMode.REFLECT.name)
    return SUPPORTED


def with_slope(op: OperationContext) -> Support:
    """ONNX broadcasts the slope to the values, but not the values to the slope: to an unknown length only a 1."""
    values, slope = op.ranked(0), op.known_dimensions(1)
    padded = (1,) * (len(values) - len(slope)) + slope
    if len(padded) != len(values) or any(b not in (1, a) for a, b in zip(values, padded, strict=True)):
        return Unsupported("SHAPE", f"alpha of {describe(slope)} on {describe(values)}", "alpha that broadcasts alone")
    return SUPPORTED


def over_neighbours(op: OperationContext) -> Support:
    dimensions = op.ranked(0)
    rank = len(dimensions)
    axis = axis_of(op, op.integer(LocalResponseNormalizationInput.AXIS, default=-1), rank)
    if rank != 4 or axis not in (1, 3):
        return Unsupported("SHAPE", f"axis {axis} of {rank}", "axis 1 or 3 of 4")
    radius = op.integer(LocalResponseNormalizationInput.RADIUS)
    if not dimensions[axis] and radius > _FAR:
        return Unsupported("DYN_SHAPE", f"radius {radius} over an unknown number of channels", f"at most {_FAR}")
    alpha, beta = (
        op.real(index)
        for index in (
            LocalResponseNormalizationInput.ALPHA,
            LocalResponseNormalizationInput.BETA,
        )
    )
    if not (0 < alpha < float("inf") and 0 < beta < float("inf")):
        return Unsupported("KERNEL", f"alpha {alpha} and beta {beta}", "finite numbers above 0")
    return SUPPORTED


def converted(op: OperationContext) -> Support:
    given, asked = op.main_type(), op.outputs[0].type
    if given != asked and (F16 in (given, asked) or (given, asked) == (F32, I32)):
        got = f"{type_name(given)} to {type_name(asked)}"
        return Unsupported("DTYPE", got, "no TENSOR_FLOAT16, and TENSOR_FLOAT32 to TENSOR_QUANT8_ASYMM only")
    return SUPPORTED
