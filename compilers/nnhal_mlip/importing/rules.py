"""The operations that the importer knows: what of each is a tensor, what must be constant, and what makes its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.operations import OperationContext
from nnhal.operations.convolution import (
    TransposeConv2dImplicit,
)
from nnhal.operations.filters import BIAS, FILTER
from nnhal.operations.joining import SlicingInput, StridedSliceInput, axis_input
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.movement import PadInput, TransposeInput
from nnhal.operations.reduction import MeanInput, ReduceInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.support.rules import Check, anything
from nnhal.types import OperationType
from nnhal_mlip.importing import elementwise, movement, rows, windows
from nnhal_mlip.importing.hal_operation import HalOperation


def _first(_: OperationContext) -> Sequence[int]:
    return (0,)


def _both(_: OperationContext) -> Sequence[int]:
    return (0, 1)


def _all_fields(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


@dataclass(frozen=True, slots=True)
class ImportRule:
    """Rule by which an operation is imported. Its scalars must be constants too."""

    emit: Callable[[HalOperation], str | tuple[str, ...]]
    """Adds its nodes, and returns the value of its only output, or those of all."""
    constants: tuple[int, ...] = ()
    """The positions of inputs that must be constants."""
    tensors: Callable[[OperationContext], Sequence[int]] = _first
    """The positions of inputs that are activations."""
    floats: bool = False
    """True if it takes floats only."""
    check: Check = anything
    """What else it must meet."""


_CONVOLVED = (FILTER, BIAS)
_PADDED = (PadInput.PADDINGS,)

IMPORT_RULES: Mapping[int, ImportRule] = {
    OperationType.ADD: ImportRule(elementwise.emit_binary, tensors=_both),
    OperationType.AVERAGE_POOL_2D: ImportRule(windows.emit_average_pool_2d),
    OperationType.BATCH_MATMUL: ImportRule(rows.emit_batch_matmul, tensors=_both, floats=True),
    OperationType.CAST: ImportRule(movement.emit_cast, floats=True),
    OperationType.CHANNEL_SHUFFLE: ImportRule(movement.emit_channel_shuffle),
    OperationType.CONCATENATION: ImportRule(movement.emit_concatenation, tensors=_all_fields),
    OperationType.CONV_2D: ImportRule(windows.emit_conv_2d, _CONVOLVED),
    OperationType.DEPTHWISE_CONV_2D: ImportRule(windows.emit_depthwise_conv_2d, _CONVOLVED),
    OperationType.DIV: ImportRule(elementwise.emit_binary, tensors=_both, floats=True),
    OperationType.EXPAND_DIMS: ImportRule(movement.emit_reshape),
    OperationType.FULLY_CONNECTED: ImportRule(
        windows.emit_fully_connected, (FullyConnectedInput.WEIGHTS, FullyConnectedInput.BIAS)
    ),
    OperationType.GROUPED_CONV_2D: ImportRule(windows.emit_grouped_conv_2d, _CONVOLVED),
    OperationType.HARD_SWISH: ImportRule(elementwise.emit_table),
    OperationType.INSTANCE_NORMALIZATION: ImportRule(rows.emit_instance_normalization, floats=True),
    OperationType.LOGISTIC: ImportRule(elementwise.emit_table),
    OperationType.MAXIMUM: ImportRule(elementwise.emit_extremum, tensors=_both, check=elementwise.one_number),
    OperationType.MAX_POOL_2D: ImportRule(windows.emit_max_pool_2d),
    OperationType.MEAN: ImportRule(windows.emit_mean, (MeanInput.AXES,), check=windows.keeps_an_axis),
    OperationType.MINIMUM: ImportRule(elementwise.emit_extremum, tensors=_both, check=elementwise.one_number),
    OperationType.MUL: ImportRule(elementwise.emit_binary, tensors=_both),
    OperationType.PAD: ImportRule(movement.emit_pad, _PADDED),
    OperationType.PAD_V2: ImportRule(movement.emit_pad, _PADDED),
    OperationType.PRELU: ImportRule(elementwise.emit_prelu, tensors=_both),
    OperationType.REDUCE_MAX: ImportRule(windows.emit_reduce_max, (ReduceInput.AXES,), check=windows.over_images),
    OperationType.RELU: ImportRule(elementwise.emit_activation),
    OperationType.RELU1: ImportRule(elementwise.emit_activation),
    OperationType.RELU6: ImportRule(elementwise.emit_activation),
    OperationType.RESHAPE: ImportRule(movement.emit_reshape, (ReshapeInput.SHAPE,)),
    OperationType.RESIZE_NEAREST_NEIGHBOR: ImportRule(
        windows.emit_resize_nearest,
        check=windows.whole_times,
    ),
    OperationType.SLICE: ImportRule(movement.emit_slice, (SlicingInput.BEGIN, SlicingInput.SIZE)),
    OperationType.SOFTMAX: ImportRule(rows.emit_softmax, floats=True),
    OperationType.SPLIT: ImportRule(movement.emit_split),
    OperationType.SQUEEZE: ImportRule(movement.emit_squeeze, (SqueezeInput.AXES,)),
    OperationType.STRIDED_SLICE: ImportRule(
        movement.emit_strided_slice,
        (StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES),
        check=movement.neighbours_only,
    ),
    OperationType.SUB: ImportRule(elementwise.emit_binary, tensors=_both, floats=True),
    OperationType.TANH: ImportRule(elementwise.emit_table),
    OperationType.TRANSPOSE: ImportRule(movement.emit_transpose, (TransposeInput.PERMUTATION,)),
    OperationType.TRANSPOSE_CONV_2D: ImportRule(
        windows.emit_transpose_conv_2d,
        (*_CONVOLVED, TransposeConv2dImplicit.OUTPUT_SHAPE),
    ),
}
