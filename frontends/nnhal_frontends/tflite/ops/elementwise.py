"""Functions of one or two tensors, element by element: arithmetic, comparison, logic, selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from tflite import DivOptions, MulOptions

from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._broadcast import common_shape, repeated
from nnhal_frontends.tflite.ops._definition import Converter

_INT32 = OperandType.TENSOR_INT32


def arithmetic(code: OperationType, kind: Any) -> Converter:
    """Convert an operator on two tensors that broadcast, with a fused activation."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.input(1), b.activation(b.options(kind).FusedActivationFunction)])

    return convert


def mul(b: OperatorBuilder) -> None:
    """MUL, in floats unless the output scale exceeds the product of the input scales, as the HAL requires."""
    first, second, result = (b.operand(operand) for operand in (b.input(0), b.input(1), b.result()))
    activation = b.activation(b.options(MulOptions).FusedActivationFunction)
    if b.is_quantized(b.result()) and result.scale <= first.scale * second.scale:
        b.finish_reals(OperationType.MUL, [b.reals(0), b.reals(1), activation])
    else:
        b.finish(OperationType.MUL, [b.input(0), b.input(1), activation])


def div(b: OperatorBuilder) -> None:
    """DIV of floats. Quotients of integers are rounded towards zero in TFLite, and down in the HAL."""
    if b.operand(b.input(0)).type == _INT32:
        raise b.unsupported("quotients of integers, truncated", "floats; FLOOR_DIV of integers")
    if b.operand(b.input(0)).type == OperandType.TENSOR_QUANT8_ASYMM:
        _require_divisor(b)
    b.finish_reals(
        OperationType.DIV, [b.reals(0), b.reals(1), b.activation(b.options(DivOptions).FusedActivationFunction)]
    )


def _require_divisor(b: OperatorBuilder) -> None:
    """Require a divisor that is known not to be 0, for which the HAL has a quotient and TFLite none."""
    if np.any(b.required(1, "divisor") == b.operand(b.input(1)).zero_point):
        raise b.unsupported("a divisor of 0", "others")


def floor_div(b: OperatorBuilder) -> None:
    """DIV of integers, which rounds down, or DIV and FLOOR of floats."""
    inputs = [b.input(0), b.input(1), b.int32(FusedActivation.NONE)]
    if b.operand(inputs[0]).type == _INT32:
        _require_divisor(b)
        b.finish(OperationType.DIV, inputs)
    else:
        b.finish(OperationType.FLOOR, [b.apply(OperationType.DIV, inputs)])


def floor_mod(b: OperatorBuilder) -> None:
    """a - floor(a / b) * b, of integers."""
    first, second, none = b.input(0), b.input(1), b.int32(FusedActivation.NONE)
    if b.operand(first).type != _INT32:
        raise b.unsupported("a remainder of floats", "int32")
    _require_divisor(b)
    quotient = b.apply(OperationType.DIV, [first, second, none])
    b.finish(OperationType.SUB, [first, b.apply(OperationType.MUL, [quotient, second, none]), none])


def squared_difference(b: OperatorBuilder) -> None:
    """(a - b)²."""
    none = b.int32(FusedActivation.NONE)
    difference = b.apply(OperationType.SUB, [b.reals(0), b.reals(1), none])
    b.finish_reals(OperationType.MUL, [difference, difference, none])


def square(b: OperatorBuilder) -> None:
    """x * x."""
    x = b.reals(0)
    b.finish_reals(OperationType.MUL, [x, x, b.int32(FusedActivation.NONE)])


def add_n(b: OperatorBuilder) -> None:
    """The sum of two or more tensors."""
    none = b.int32(FusedActivation.NONE)
    operands = b.inputs()
    if len(operands) < 2:
        raise b.unsupported(f"a sum of {len(operands)} tensors", "two or more")
    total = operands[0]
    for operand in operands[1:-1]:
        total = b.apply(OperationType.ADD, [total, operand, none])
    b.finish(OperationType.ADD, [total, operands[-1], none])


def pairwise(code: OperationType) -> Converter:
    """Convert an operator on two tensors that broadcast."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.input(1)])

    return convert


def pairwise_reals(code: OperationType) -> Converter:
    """Convert an operator on two tensors that broadcast, in floats."""

    def convert(b: OperatorBuilder) -> None:
        b.finish_reals(code, [b.reals(0), b.reals(1)])

    return convert


def unary(code: OperationType) -> Converter:
    """Convert an operator on one tensor."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0)])

    return convert


def unary_reals(code: OperationType) -> Converter:
    """Convert an operator on one tensor, in floats."""

    def convert(b: OperatorBuilder) -> None:
        b.finish_reals(code, [b.reals(0)])

    return convert


def cos(b: OperatorBuilder) -> None:
    """1 - 2 sin(x / 2)^2: half of a float is exact, so large angles are as exact as small ones."""
    x, none = b.input(0), b.int32(FusedActivation.NONE)
    half, one, two = (b.add_constant(OperandType(b.operand(x).type), np.array([value])) for value in (0.5, 1, 2))
    sine = b.apply(OperationType.SIN, [b.apply(OperationType.MUL, [x, half, none])])
    doubled = b.apply(OperationType.MUL, [b.apply(OperationType.MUL, [sine, sine, none]), two, none])
    b.finish(OperationType.SUB, [one, doubled, none])


def select(b: OperatorBuilder) -> None:
    """SELECT, whose tensors must have one shape: they are repeated if TFLite broadcasts them."""
    mask, first, second = (b.input(index) for index in range(3))
    shapes = [b.ranked(operand) for operand in (mask, first, second)]
    if len(set(shapes)) > 1:
        if b.operator.op_type == "SELECT" and shapes[0] != (1,):
            raise b.unsupported("a mask that selects slices", "a mask of the tensors' shape, or of one element")
        shape = common_shape(b, *shapes)
        mask, first, second = (repeated(b, operand, shape) for operand in (mask, first, second))
    b.finish(OperationType.SELECT, [mask, first, second])
