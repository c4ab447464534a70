"""The operations that the importer knows: what of each is a tensor, what must be constant, and what makes its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.operations import OperationContext
from nnhal.operations._convolution import BIAS, FILTER
from nnhal.operations._window import Forms
from nnhal.operations.convolution import CONV_2D_FORMS, DEPTHWISE_CONV_2D_FORMS, GROUPED_CONV_2D_FORMS
from nnhal.operations.joining import axis_input
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.movement import PadInput, TransposeInput
from nnhal.operations.pooling import FORMS
from nnhal.operations.reduction import MeanInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.types import OperationType
from nnhal_mlip.importing import convolution, elementwise, movement, pooling
from nnhal_mlip.importing.hal_operation import HalOperation


def _first(_: OperationContext) -> Sequence[int]:
    return (0,)


def _both(_: OperationContext) -> Sequence[int]:
    return (0, 1)


def _all_fields(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


@dataclass(frozen=True, slots=True)
class ImportRule:
    """How an operation is imported. Its scalars must be constants too."""

    emit: Callable[[HalOperation], str]
    """Adds its nodes, and returns the value of its only output."""
    constants: tuple[int, ...] = ()
    """The positions of inputs that must be constants."""
    tensors: Callable[[OperationContext], Sequence[int]] = _first
    """The positions of inputs that are activations."""
    floats: bool = False
    """Whether it takes floats only."""
    forms: Forms | None = None
    """Of an operation on images: what tells whether their channels are first."""


_CONVOLVED = (FILTER, BIAS)
_PADDED = (PadInput.PADDINGS,)

IMPORT_RULES: Mapping[int, ImportRule] = {
    OperationType.ADD: ImportRule(elementwise.emit_add, tensors=_both),
    OperationType.AVERAGE_POOL_2D: ImportRule(pooling.emit_average_pool_2d, forms=FORMS),
    OperationType.CAST: ImportRule(movement.emit_cast, floats=True),
    OperationType.CONCATENATION: ImportRule(movement.emit_concatenation, tensors=_all_fields),
    OperationType.CONV_2D: ImportRule(convolution.emit_conv_2d, _CONVOLVED, forms=CONV_2D_FORMS),
    OperationType.DEPTHWISE_CONV_2D: ImportRule(
        convolution.emit_depthwise_conv_2d, _CONVOLVED, forms=DEPTHWISE_CONV_2D_FORMS
    ),
    OperationType.EXPAND_DIMS: ImportRule(movement.emit_reshape),
    OperationType.FULLY_CONNECTED: ImportRule(
        convolution.emit_fully_connected, (FullyConnectedInput.WEIGHTS, FullyConnectedInput.BIAS)
    ),
    OperationType.GROUPED_CONV_2D: ImportRule(
        convolution.emit_grouped_conv_2d, _CONVOLVED, forms=GROUPED_CONV_2D_FORMS
    ),
    OperationType.MAX_POOL_2D: ImportRule(pooling.emit_max_pool_2d, forms=FORMS),
    OperationType.MEAN: ImportRule(pooling.emit_mean, (MeanInput.AXES,)),
    OperationType.PAD: ImportRule(movement.emit_pad, _PADDED),
    OperationType.PAD_V2: ImportRule(movement.emit_pad, _PADDED),
    OperationType.RELU: ImportRule(elementwise.emit_activation),
    OperationType.RELU1: ImportRule(elementwise.emit_activation),
    OperationType.RELU6: ImportRule(elementwise.emit_activation),
    OperationType.RESHAPE: ImportRule(movement.emit_reshape, (ReshapeInput.SHAPE,)),
    OperationType.SQUEEZE: ImportRule(movement.emit_squeeze, (SqueezeInput.AXES,)),
    OperationType.TRANSPOSE: ImportRule(movement.emit_transpose, (TransposeInput.PERMUTATION,)),
}
