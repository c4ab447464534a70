"""Activations that are linear, or nearly linear, on at least one side of zero."""

from __future__ import annotations

import numpy as np

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.gelu import tanh_gelu
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import broadcast, filled
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm

_SELU_ALPHA = 1.67326319217681884765625
_SELU_GAMMA = 1.05070102214813232421875


def elu(b: NodeBuilder) -> None:
    """x, or alpha * (exp(x) - 1) below zero."""
    b.finish(OperationType.ELU, [b.input(0), b.real(b.attribute("alpha", 1.0))])


def selu(b: NodeBuilder) -> None:
    """gamma * elu(x)."""
    curve = b.apply(OperationType.ELU, [b.input(0), b.real(b.attribute("alpha", _SELU_ALPHA))])
    b.finish(OperationType.MUL, [curve, filled(b, b.attribute("gamma", _SELU_GAMMA)), b.int32(0)])


def celu(b: NodeBuilder) -> None:
    """alpha * elu(x / alpha)."""
    alpha = b.attribute("alpha", 1.0)
    if alpha == 1:
        elu(b)
        return
    scaled = b.apply(OperationType.DIV, [b.input(0), filled(b, alpha), b.int32(0)])
    curve = b.apply(OperationType.ELU, [scaled, b.real(1.0)])
    b.finish(OperationType.MUL, [curve, filled(b, alpha), b.int32(0)])


def leaky_relu(b: NodeBuilder) -> None:
    """x, or alpha * x below zero."""
    alpha, quantization = b.attribute("alpha", 0.01), b.quantization(0)
    if quantization is None:
        slope = filled(b, alpha)
    else:
        one = np.array([1], quantization.element_type)
        slope = b.add_constant(OPERAND_TYPES[quantization.element_type], one, scale=float(np.float32(alpha)))
    b.finish(OperationType.PRELU, [b.input(0), slope])


def prelu(b: NodeBuilder) -> None:
    """x, or slope * x below zero."""
    b.finish(OperationType.PRELU, [b.input(0), b.input(1)])


def hard_sigmoid(b: NodeBuilder) -> None:
    """max(0, min(1, alpha * x + beta))."""
    product = b.apply(OperationType.MUL, [b.input(0), filled(b, b.attribute("alpha", 0.2)), b.int32(0)])
    line = b.apply(OperationType.ADD, [product, filled(b, b.attribute("beta", 0.5)), b.int32(0)])
    capped = b.apply(OperationType.MINIMUM, [line, filled(b, 1)])
    b.finish(OperationType.MAXIMUM, [capped, filled(b, 0)])


def hard_swish(b: NodeBuilder) -> None:
    """x * max(0, min(1, x / 6 + 0.5))."""
    b.finish(OperationType.HARD_SWISH, [b.input(0)])


def thresholded_relu(b: NodeBuilder) -> None:
    """x if it is above alpha, otherwise zero."""
    shape = b.shape(0) or (1,)
    one = (1,) * len(shape)
    above = b.apply(
        OperationType.GREATER,
        [b.input(0), filled(b, b.attribute("alpha", 1.0))],
        like=Operand(OperandType.TENSOR_BOOL8),
    )
    b.finish(OperationType.SELECT, [above, b.input(0), broadcast(b, filled(b, 0, shape=one), one, shape)])


def gelu(b: NodeBuilder) -> None:
    """By tanh: the error function would be many operations, of which the extension is one."""
    if b.attribute("approximate", "none") != "tanh":
        raise b.node.unsupported("the error function", "approximate tanh")
    b.finish(OperationType.MUL, tanh_gelu(b, b.input(0)))


def _quantized_leaky_relu(form: QuantizedForm) -> bool:
    return form.quant8(0) and form.node.attributes.get("alpha", 0.01) > 0


def _quantized_prelu(form: QuantizedForm) -> bool:
    return form.quant8(0, 1)


def _quantized_hard_swish(form: QuantizedForm) -> bool:
    return form.quant8(0)


CELU = Converter(celu)
ELU = Converter(elu)
GELU = Converter(gelu)
HARD_SIGMOID = Converter(hard_sigmoid)
HARD_SWISH = Converter(hard_swish, _quantized_hard_swish)
LEAKY_RELU = Converter(leaky_relu, _quantized_leaky_relu)
PRELU = Converter(prelu, _quantized_prelu)
SELU = Converter(selu)
THRESHOLDED_RELU = Converter(thresholded_relu)
