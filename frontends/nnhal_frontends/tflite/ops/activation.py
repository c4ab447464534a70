"""Activations as operators of their own."""

from __future__ import annotations

from math import isfinite

import numpy as np
from tflite import GeluOptions, LeakyReluOptions

from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal_frontends.gelu import exact_gelu, tanh_gelu
from nnhal_frontends.operation_builder import ACTIVATIONS
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._definition import Converter
from nnhal_frontends.tflite.ops._fixed import SIGNED_UNIT, UNIT, finish_fixed

_MIDDLE_OF_UINT8 = 128


def relu(activation: FusedActivation) -> Converter:
    """Convert to RELU, RELU1 or RELU6, or to an ADD of zero with that activation if the result has another scale."""

    def convert(b: OperatorBuilder) -> None:
        if b.same_scale(b.input(0), b.result()):
            b.finish(ACTIVATIONS[activation], [b.input(0)])
        else:
            b.finish(OperationType.ADD, b.with_zero(b.input(0), activation))

    return convert


def relu_0_to_1(b: OperatorBuilder) -> None:
    """min(relu(x), 1), in floats."""
    positive = b.apply(OperationType.RELU, [b.reals(0)])
    one = b.add_constant(OperandType(b.operand(positive).type), np.array([1]))
    b.finish_reals(OperationType.MINIMUM, [positive, one])


def logistic(b: OperatorBuilder) -> None:
    """1 / (1 + exp(-x))."""
    finish_fixed(b, OperationType.LOGISTIC, UNIT)


def tanh(b: OperatorBuilder) -> None:
    """The hyperbolic tangent."""
    finish_fixed(b, OperationType.TANH, SIGNED_UNIT)


def elu(b: OperatorBuilder) -> None:
    """ELU with alpha 1."""
    x = b.reals(0)
    b.finish_reals(OperationType.ELU, [x, b.real_like(x, 1.0)])


def gelu(b: OperatorBuilder) -> None:
    """GELU of 8-bit tensors, in floats: a table for who has tables. The extension computes one of floats faster."""
    if not b.is_quantized(b.input(0)):
        raise b.unsupported("GELU of floats", "8 bits")
    if b.options(GeluOptions).Approximate:
        b.finish_reals(OperationType.MUL, tanh_gelu(b, b.reals(0)))
    else:
        b.finish_reals(OperationType.SUB, exact_gelu(b, b.reals(0)))


def leaky_relu(b: OperatorBuilder) -> None:
    """PRELU with one slope. In quantised form the slope is 1 or -1 times a scale, which is exact."""
    slope, code = b.options(LeakyReluOptions).Alpha, OperandType(b.operand(b.input(0)).type)
    if not isfinite(slope):
        raise b.unsupported(f"slope {slope}", "a finite number")
    if b.is_quantized(b.input(0)):
        zero_point = _MIDDLE_OF_UINT8 if code == OperandType.TENSOR_QUANT8_ASYMM else 0
        sign = np.array([zero_point + int(np.sign(slope))])
        alpha = b.add_constant(code, sign, scale=abs(slope) or 1.0, zero_point=zero_point)
    else:
        alpha = b.add_constant(code, np.array([slope]))
    b.finish(OperationType.PRELU, [b.input(0), alpha])
