"""Add, Sub, Mul, Div, Mod, Pow and BatchNormalization: arithmetic on tensors that broadcast."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.fusion import normalization_of
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm, real_values

_LARGEST = 127
"""The integer that stands for a reciprocal: the scale is then far below those of results."""


def add(b: NodeBuilder) -> None:
    """a + b."""
    _convert(b, OperationType.ADD)


def sub(b: NodeBuilder) -> None:
    _convert(b, OperationType.SUB)


def mul(b: NodeBuilder) -> None:
    _convert(b, OperationType.MUL)


def div(b: NodeBuilder) -> None:
    """a / b, of floats. A quotient of quantised values by a constant is their product with its reciprocal."""
    source, divisor = b.quantization(0), b.constant(1)
    if source is not None and divisor is not None:
        given = b.quantization(1)
        by = float((divisor if given is None else real_values(divisor, given)).item())
        code, scale = OPERAND_TYPES[source.element_type], float(np.float32(1 / (_LARGEST * by)))
        reciprocal = b.add_constant(code, np.array([_LARGEST], source.element_type), scale=scale)
        b.finish(OperationType.MUL, [b.input(0), reciprocal, b.activation()])
        return
    if b.element_type().kind != "f":
        raise b.node.unsupported(f"a quotient of {b.element_type()}, which ONNX rounds towards zero", "floats")
    _convert(b, OperationType.DIV)


def modulo(b: NodeBuilder) -> None:
    """a - floor(a / b) * b, of integers. The HAL's quotient of integers is rounded down."""
    if b.element_type().kind != "i" or b.element_type().itemsize == 1 or b.attribute("fmod", 0):
        raise b.node.unsupported(f"fmod {b.attribute('fmod', 0)} of {b.element_type()}", "fmod 0 of int32 or int64")
    divisor = b.constant(1)
    if divisor is None or not np.all(divisor):
        raise b.node.unsupported("a divisor that is computed, or 0", "a constant without 0")
    first, second, none = b.input(0), b.input(1), b.int32(0)
    whole = b.apply(OperationType.DIV, [first, second, none])
    b.finish(OperationType.SUB, [first, b.apply(OperationType.MUL, [whole, second, none]), none])


def power(b: NodeBuilder) -> None:
    """a to the power of b. If b is constant, it may have another element type."""
    exponent = b.constant(1)
    if exponent is None:
        b.finish(OperationType.POW, [b.input(0), b.input(1)])
        return
    element_type = b.element_type()
    if element_type.kind != "f":
        raise b.node.unsupported(f"a power of {element_type}", "floats")
    values = np.atleast_1d(exponent).astype(element_type)
    b.finish(OperationType.POW, [b.input(0), b.array(values)])


def batch_normalization(b: NodeBuilder) -> None:
    """x * scale + shift for each channel. BatchNormalization after Conv has been fused into it before."""
    factors = normalization_of(b.graph, b.node)
    if factors is None:
        raise b.node.unsupported("parameters that are computed at run time, or training_mode", "constant parameters")
    rank = len(b.shape(0))
    element_type = b.element_type()
    scale, shift = (b.array(values.astype(element_type).reshape(-1, *[1] * (rank - 2))) for values in factors)
    product = b.apply(OperationType.MUL, [b.input(0), scale, b.int32(0)])
    b.finish(OperationType.ADD, [product, shift, b.activation()])


def _convert(b: NodeBuilder, code: OperationType) -> None:
    if b.element_type().itemsize == 1 and b.quantization(0) is None:
        raise b.node.unsupported(
            f"plain {b.element_type()}, which ONNX wraps around", "floats, int32, quantised values"
        )
    b.finish(code, [b.input(0), b.input(1), b.activation()])


def _quantized(form: QuantizedForm) -> bool:
    return form.quant8(0, 1)


def _quantized_mul(form: QuantizedForm) -> bool:
    """Return whether the result's scale exceeds the product of the inputs' scales, as the HAL requires."""
    first, second = form.inputs
    if not form.quant8(0, 1) or first is None or second is None:
        return False
    return form.output.scale > first.scale * second.scale


def _quantized_div(form: QuantizedForm) -> bool:
    """Return whether the divisor is one number above 0 whose reciprocal is within the range of scales."""
    divisor, given = form.constant(1), form.inputs[1] if len(form.inputs) > 1 else None
    if divisor is None or divisor.size != 1 or not form.quant8(0) or form.inputs[0] is None:
        return False
    by = float((divisor if given is None else real_values(divisor, given)).item())
    if not np.finfo(np.float32).tiny * _LARGEST < by < np.finfo(np.float32).max / _LARGEST:
        return False
    return form.output.scale > form.inputs[0].scale / (_LARGEST * by)


ADD = Converter(add, _quantized)
SUB = Converter(sub, _quantized)
MUL = Converter(mul, _quantized_mul)
DIV = Converter(div, _quantized_div)
MOD = Converter(modulo)
POW = Converter(power)
BATCH_NORMALIZATION = Converter(batch_normalization)
