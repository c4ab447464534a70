"""Activations: values that are clamped or bent, and softmax along an axis.

RELU, RELU1 and RELU6: values clamped to [0, inf), [-1, 1] and [0, 6].

ELU: x if x is positive, otherwise alpha * (exp(x) - 1).

LOGISTIC: 1 / (1 + exp(-x)).

TANH: the hyperbolic tangent.

SOFTMAX: exp((x - max) * beta), normalised along an axis.

LOG_SOFTMAX: the logarithm of softmax, x * beta - log(sum of exp(x * beta)) along an axis.
"""

from __future__ import annotations

from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, require_input_quantization, require_output_quantization
from nnhal.operations.layout_rules import along, element_wise
from nnhal.operations.operand_types import F16, F32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.operands import (
    Inputs,
    newer_ranks,
    parameter,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class ReluInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."


def prepare_relu(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    return (op.ranked(ReluInput.INPUT, (1, 4)),)


_RELU_SIGNATURE = signature(ReluInput, same(rank=(1, 4)))
RELU = OperationDefinition(OperationType.RELU, 1, _RELU_SIGNATURE, prepare_relu, layout=element_wise())
RELU1 = OperationDefinition(OperationType.RELU1, 1, _RELU_SIGNATURE, prepare_relu, layout=element_wise())
RELU6 = OperationDefinition(OperationType.RELU6, 1, _RELU_SIGNATURE, prepare_relu, layout=element_wise())


class EluInput(Inputs):
    INPUT = tensor({F16: 4, F32: 4}), "Any dimensions."
    ALPHA = parameter(), "The factor of negative values."


def prepare_elu(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(EluInput.INPUT),)


ELU = OperationDefinition(OperationType.ELU, 4, signature(EluInput, same()), prepare_elu, layout=element_wise())


class LogisticInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."


def prepare_logistic(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [0, 1)."""
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 256, 0 if op.main_type() == Q8A else -128)
    return (op.ranked(LogisticInput.INPUT, (1, 4)),)


LOGISTIC = OperationDefinition(
    OperationType.LOGISTIC, 1, signature(LogisticInput, same(rank=(1, 4))), prepare_logistic, layout=element_wise()
)


class TanhInput(Inputs):
    INPUT = tensor({F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."


def prepare_tanh(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [-1, 1)."""
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 128, 128 if op.main_type() == Q8A else 0)
    return (op.ranked(TanhInput.INPUT, (1, 4)),)


TANH = OperationDefinition(
    OperationType.TANH, 1, signature(TanhInput, same(rank=(1, 4))), prepare_tanh, layout=element_wise()
)


class SoftmaxInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    BETA = parameter(), "The factor of the exponent, above 0."
    AXIS = scalar(INT32, since=3), "From -rank to rank - 1; the last one by default."


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
    OperationType.SOFTMAX,
    1,
    signature(SoftmaxInput, same(), fewest=2, further=[newer_ranks(2, 4)]),
    prepare_softmax,
    layout=along(SoftmaxInput.AXIS, default=-1),
)


class LogSoftmaxInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3}), "Any rank."
    BETA = parameter(), "The factor of the exponent."
    AXIS = scalar(INT32), "From -rank to rank - 1."


def prepare_log_softmax(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(LogSoftmaxInput.INPUT)
    axis_of(op, op.integer(LogSoftmaxInput.AXIS), len(dimensions))
    return (dimensions,)


LOG_SOFTMAX = OperationDefinition(
    OperationType.LOG_SOFTMAX,
    3,
    signature(LogSoftmaxInput, same()),
    prepare_log_softmax,
    layout=along(LogSoftmaxInput.AXIS),
)
