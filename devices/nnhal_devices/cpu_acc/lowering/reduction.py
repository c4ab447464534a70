"""MEAN, REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_SUM, ARGMAX and ARGMIN."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from nnhal.operations.dimensions import axis_of
from nnhal.operations.reduction import ArgExtremumInput, MeanInput, ReduceInput, axes_of_mean, axes_of_reduce
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.layout import RANK, Layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_INPUT = 0
_SPATIAL = (2, 3)
_NODES = {
    OperationType.ARGMAX: "ArgMax",
    OperationType.ARGMIN: "ArgMin",
    OperationType.MEAN: "ReduceMean",
    OperationType.REDUCE_ALL: "ReduceMin",
    OperationType.REDUCE_ANY: "ReduceMax",
    OperationType.REDUCE_MAX: "ReduceMax",
    OperationType.REDUCE_MIN: "ReduceMin",
    OperationType.REDUCE_PROD: "ReduceProd",
    OperationType.REDUCE_SUM: "ReduceSum",
}


def mean_of(to: Emitter) -> None:
    """The mean. That of whole images becomes a global pooling, for which ONNX Runtime has faster kernels."""
    axes, rank = axes_of_mean(to.op), len(to.op.ranked(_INPUT))
    keep = to.op.integer(MeanInput.KEEP) > 0
    layout = to.common_layout((_INPUT,))
    if rank == RANK and tuple(sorted(layout.axis(axis) for axis in axes)) == _SPATIAL:
        to.keep_real(to.graph.add("GlobalAveragePool", to.real(_INPUT, layout)), layout)
        if not keep:  # after the quantisation, which is fused with the pooling next to it
            to.keep(to.graph.add("Squeeze", to.graph.kept(to.outputs[0], layout), to.graph.integers(_SPATIAL)))
    elif axes:
        layout = layout if keep else Layout.GIVEN
        to.keep_real(_reduce(to, to.real(_INPUT, layout), layout, axes, keep), layout)
    else:
        to.keep(to.kept(_INPUT, layout), layout)


def extremes(to: Emitter) -> None:
    """Compare 8-bit values as they are, since input and output are quantised alike, and booleans too."""
    axes, keep, layout = _parameters(to)
    tensor = to.kept(_INPUT, layout)
    if not axes:
        to.keep(tensor, layout)
    elif to.op.main_type() == OperandType.TENSOR_BOOL8:
        numbers = to.graph.add("Cast", tensor, to=TensorProto.UINT8)
        to.keep(to.graph.add("Cast", _reduce(to, numbers, layout, axes, keep), to=TensorProto.BOOL), layout)
    else:
        to.keep(_reduce(to, tensor, layout, axes, keep), layout)


def sums(to: Emitter) -> None:
    """Sums and products of floats."""
    axes, keep, layout = _parameters(to)
    tensor = to.real(_INPUT, layout)
    to.keep_real(_reduce(to, tensor, layout, axes, keep) if axes else tensor, layout)


def arg_extremes(to: Emitter) -> None:
    """The first of equal elements, as in ONNX. The axis is dropped, unless it is the only one."""
    rank = len(to.op.ranked(_INPUT))
    axis = axis_of(to.op, to.op.integer(ArgExtremumInput.AXIS), rank)
    found = to.graph.add(_NODES[to.op.type], to.kept(_INPUT), axis=axis, keepdims=int(rank == 1))
    to.keep(to.graph.add("Cast", found, to=TensorProto.INT32))


def _parameters(to: Emitter) -> tuple[tuple[int, ...], bool, Layout]:
    axes, keep = axes_of_reduce(to.op), to.op.boolean(ReduceInput.KEEP_DIMS)
    return axes, keep, to.common_layout((_INPUT,)) if keep or not axes else Layout.GIVEN


def _reduce(to: Emitter, tensor: str, layout: Layout, axes: Sequence[int], keep: bool) -> str:
    """Reduce a tensor. If all axes are reduced, the result has one axis of length 1."""
    places = to.graph.integers([layout.axis(axis) for axis in axes])
    result = to.graph.add(_NODES[to.op.type], tensor, places, keepdims=int(keep))
    if keep or len(axes) < len(to.op.ranked(_INPUT)):
        return result
    return to.graph.add("Reshape", result, to.graph.integers([1]))
