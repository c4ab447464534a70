"""The operations that the importer knows: what of each is a tensor, what must be constant, and what makes its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.operations import OperationContext
from nnhal.operations._convolution import BIAS, FILTER
from nnhal.operations._window import Forms, activation_of
from nnhal.operations.convolution import CONV_2D_FORMS, DEPTHWISE_CONV_2D_FORMS, GROUPED_CONV_2D_FORMS
from nnhal.operations.elementwise import BinaryInput
from nnhal.operations.joining import axis_input
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.movement import PadInput, TransposeInput
from nnhal.operations.pooling import FORMS
from nnhal.operations.reduction import MeanInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.types import FusedActivation, OperationType
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing import movement, windows
from nnhal_mlip.importing.hal_operation import HalOperation

_ACTIVATIONS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}


_TABLES = {
    OperationType.HARD_SWISH: Operator.HARD_SWISH,
    OperationType.LOGISTIC: Operator.SIGMOID,
    OperationType.TANH: Operator.TANH,
}
_BINARIES = {OperationType.ADD: Operator.ADD, OperationType.MUL: Operator.MULTIPLY}


def emit_binary(op: HalOperation) -> str:
    """Add the nodes of an ADD or a MUL."""
    operands = [op.tensor(BinaryInput.FIRST), op.tensor(BinaryInput.SECOND)]
    made = op.add(_BINARIES[OperationType(op.context.type)], operands)
    return op.activated(made, activation_of(op.context, BinaryInput.ACTIVATION))


def emit_table(op: HalOperation) -> str:
    """Add the node of a LOGISTIC, TANH or HARD_SWISH."""
    return op.add(_TABLES[OperationType(op.context.type)], [op.tensor(0)])


def emit_activation(op: HalOperation) -> str:
    """Add the node of a RELU, RELU1 or RELU6."""
    return op.activated(op.tensor(0), _ACTIVATIONS[op.context.type])


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
    """The form of an operation on images: what tells whether their channels are first."""


_CONVOLVED = (FILTER, BIAS)
_PADDED = (PadInput.PADDINGS,)

IMPORT_RULES: Mapping[int, ImportRule] = {
    OperationType.ADD: ImportRule(emit_binary, tensors=_both),
    OperationType.AVERAGE_POOL_2D: ImportRule(windows.emit_average_pool_2d, forms=FORMS),
    OperationType.CAST: ImportRule(movement.emit_cast, floats=True),
    OperationType.CONCATENATION: ImportRule(movement.emit_concatenation, tensors=_all_fields),
    OperationType.CONV_2D: ImportRule(windows.emit_conv_2d, _CONVOLVED, forms=CONV_2D_FORMS),
    OperationType.DEPTHWISE_CONV_2D: ImportRule(
        windows.emit_depthwise_conv_2d, _CONVOLVED, forms=DEPTHWISE_CONV_2D_FORMS
    ),
    OperationType.EXPAND_DIMS: ImportRule(movement.emit_reshape),
    OperationType.FULLY_CONNECTED: ImportRule(
        windows.emit_fully_connected, (FullyConnectedInput.WEIGHTS, FullyConnectedInput.BIAS)
    ),
    OperationType.GROUPED_CONV_2D: ImportRule(windows.emit_grouped_conv_2d, _CONVOLVED, forms=GROUPED_CONV_2D_FORMS),
    OperationType.HARD_SWISH: ImportRule(emit_table),
    OperationType.LOGISTIC: ImportRule(emit_table),
    OperationType.MAX_POOL_2D: ImportRule(windows.emit_max_pool_2d, forms=FORMS),
    OperationType.MEAN: ImportRule(windows.emit_mean, (MeanInput.AXES,)),
    OperationType.MUL: ImportRule(emit_binary, tensors=_both),
    OperationType.PAD: ImportRule(movement.emit_pad, _PADDED),
    OperationType.PAD_V2: ImportRule(movement.emit_pad, _PADDED),
    OperationType.RELU: ImportRule(emit_activation),
    OperationType.RELU1: ImportRule(emit_activation),
    OperationType.RELU6: ImportRule(emit_activation),
    OperationType.RESHAPE: ImportRule(movement.emit_reshape, (ReshapeInput.SHAPE,)),
    OperationType.SQUEEZE: ImportRule(movement.emit_squeeze, (SqueezeInput.AXES,)),
    OperationType.TANH: ImportRule(emit_table),
    OperationType.TRANSPOSE: ImportRule(movement.emit_transpose, (TransposeInput.PERMUTATION,)),
}
