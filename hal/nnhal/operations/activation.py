"""Activations: values that are clamped or bent, and softmax along an axis.

RELU, RELU1 and RELU6: values clamped to [0, inf), [-1, 1] and [0, 6].

ELU: x if x is positive, otherwise alpha * (exp(x) - 1).

LOGISTIC: 1 / (1 + exp(-x)).

TANH: the hyperbolic tangent.

SOFTMAX: exp((x - max) * beta), normalised along an axis.

LOG_SOFTMAX: the logarithm of softmax, x * beta - log(sum of exp(x * beta)) along an axis.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, require_input_quantization, require_output_quantization
from nnhal.operations.layout_rules import along, element_wise
from nnhal.operations.operand_types import F16, F32, INT32, Q8A, Q8AS, QUANT8, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class ReluInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""


def validate_relu(op: Signature) -> None:
    """Require a tensor of rank 1 to 4."""
    op.count(1, names=ReluInput)
    main = op.tensor(ReluInput.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.output(0, main, rank=(1, 4))


def prepare_relu(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    return (op.ranked(ReluInput.INPUT, (1, 4)),)


RELU = OperationDefinition(OperationType.RELU, 1, validate_relu, prepare_relu, layout=element_wise())
RELU1 = OperationDefinition(OperationType.RELU1, 1, validate_relu, prepare_relu, layout=element_wise())
RELU6 = OperationDefinition(OperationType.RELU6, 1, validate_relu, prepare_relu, layout=element_wise())


class EluInput(IntEnum):
    INPUT = 0
    """Any dimensions."""
    ALPHA = 1
    """The factor of negative values."""


def validate_elu(op: Signature) -> None:
    """Require a float tensor and a float."""
    op.count(2, names=EluInput)
    main = op.tensor(EluInput.INPUT, {F16: 4, F32: 4})
    op.scalar(EluInput.ALPHA, scalar_float(main))
    op.output(0, main)


def prepare_elu(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(EluInput.INPUT),)


ELU = OperationDefinition(OperationType.ELU, 4, validate_elu, prepare_elu, layout=element_wise())


class LogisticInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""


def validate_logistic(op: Signature) -> None:
    """Require a tensor of rank 1 to 4."""
    op.count(1, names=LogisticInput)
    main = op.tensor(LogisticInput.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.output(0, main, rank=(1, 4))


def prepare_logistic(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [0, 1)."""
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 256, 0 if op.main_type() == Q8A else -128)
    return (op.ranked(LogisticInput.INPUT, (1, 4)),)


LOGISTIC = OperationDefinition(OperationType.LOGISTIC, 1, validate_logistic, prepare_logistic, layout=element_wise())


class TanhInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""


def validate_tanh(op: Signature) -> None:
    """Require a tensor of rank 1 to 4."""
    op.count(1, names=TanhInput)
    main = op.tensor(TanhInput.INPUT, {F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4))
    op.output(0, main, rank=(1, 4))


def prepare_tanh(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [-1, 1)."""
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 128, 128 if op.main_type() == Q8A else 0)
    return (op.ranked(TanhInput.INPUT, (1, 4)),)


TANH = OperationDefinition(OperationType.TANH, 1, validate_tanh, prepare_tanh, layout=element_wise())


class SoftmaxInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""
    BETA = 1
    """The factor of the exponent, above 0."""
    AXIS = 2
    """From -rank to rank - 1; the last one by default."""


def validate_softmax(op: Signature) -> None:
    """Require a tensor of rank 1 to 4. Ranks other than 2 and 4, and the axis, need feature level 3."""
    op.count((2, 3), names=SoftmaxInput)
    main = op.tensor(SoftmaxInput.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    if len(op.inputs[SoftmaxInput.INPUT].dimensions) not in (2, 4):
        op.since(3)
    op.scalar(SoftmaxInput.BETA, scalar_float(main))
    op.scalar(SoftmaxInput.AXIS, INT32, since=3)
    op.output(0, main)


def prepare_softmax(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(SoftmaxInput.INPUT)
    axis_of(op, op.integer(SoftmaxInput.AXIS, default=-1), len(dimensions))
    if op.real(SoftmaxInput.BETA) <= 0:
        op.refuse(f"beta is {op.real(SoftmaxInput.BETA)}, expected more than 0")
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 256, 0 if op.main_type() == Q8A else -128)
    return (dimensions,)


SOFTMAX = OperationDefinition(
    OperationType.SOFTMAX, 1, validate_softmax, prepare_softmax, layout=along(SoftmaxInput.AXIS, default=-1)
)


class LogSoftmaxInput(IntEnum):
    INPUT = 0
    """Any rank."""
    BETA = 1
    """The factor of the exponent."""
    AXIS = 2
    """From -rank to rank - 1."""


def validate_log_softmax(op: Signature) -> None:
    """Require a float tensor of any rank, beta and the axis."""
    op.count(3, names=LogSoftmaxInput)
    main = op.tensor(LogSoftmaxInput.INPUT, {F16: 3, F32: 3})
    op.scalar(LogSoftmaxInput.BETA, scalar_float(main))
    op.scalar(LogSoftmaxInput.AXIS, INT32)
    op.output(0, main)


def prepare_log_softmax(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(LogSoftmaxInput.INPUT)
    axis_of(op, op.integer(LogSoftmaxInput.AXIS), len(dimensions))
    return (dimensions,)


LOG_SOFTMAX = OperationDefinition(
    OperationType.LOG_SOFTMAX, 3, validate_log_softmax, prepare_log_softmax, layout=along(LogSoftmaxInput.AXIS)
)
