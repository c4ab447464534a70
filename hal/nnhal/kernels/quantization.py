"""Quantised values and the reals that they stand for: real = (q - zero_point) * scale.

Requantisation is in fixed point, as in NNAPI's reference implementation (gemmlowp): a real multiplier is a
31-bit mantissa and a power of two; products are rounded half away from zero, shifts to nearest.

Reals become quantised with halves to even, as ONNX defines it and as XNNPACK, the default of LiteRT, rounds.
The HAL leaves it open: its conformance tests allow every quantised result one step.
"""

from __future__ import annotations

from math import frexp

import numpy as np

from nnhal.kernels.array_types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.operand_types import QUANT8
from nnhal.types import FusedActivation, Operand
from nnhal.types.layout import ELEMENT_TYPES


def to_real(op: OperationContext, index: int) -> Floats:
    """An input as float32, dequantised if it is quantised."""
    values, operand = op.value(index), op.inputs[index]
    if operand.scale == 0:
        return values.astype(np.float32, copy=False)
    reals: Floats = (values.astype(np.float32) - np.float32(operand.zero_point)) * np.float32(operand.scale)
    return reals


def from_real(op: OperationContext, values: Floats, index: int = 0) -> Array:
    """Float values in the element type of an output, quantised if that is (halves to even, NaN the least)."""
    operand = op.outputs[index]
    element = ELEMENT_TYPES[operand.type]
    if operand.scale == 0:
        with np.errstate(over="ignore"):  # a float16 that overflows is infinite
            return values.astype(element, copy=False)
    low, high = range_of(operand)
    with np.errstate(over="ignore"):  # by a small scale a large value becomes infinite, and is clamped
        codes = np.rint((values / np.float32(operand.scale)).astype(np.float64)) + operand.zero_point
    quantized: Array = np.minimum(np.fmax(codes, low), high).astype(element)
    return quantized


def as_output(op: OperationContext, index: int, output: int = 0) -> Array:
    """An input, requantised to an output of the same type if they are quantised."""
    source, target = op.inputs[index], op.outputs[output]
    if source.type not in QUANT8 or (source.scale, source.zero_point) == (target.scale, target.zero_point):
        return op.value(index)
    return from_real(op, to_real(op, index), output)


def divide_half_away(values: Integers, divisors: Array | int) -> Integers:
    """Divide integers by positive ones, to the nearest, halves away from zero."""
    whole = np.asarray(divisors, np.int64)
    quotients: Integers = np.sign(values) * ((np.abs(values) + whole // 2) // whole)
    return quotients


def range_of(operand: Operand) -> tuple[int, int]:
    """The least and the largest value of a quantised operand's element type."""
    info = np.iinfo(ELEMENT_TYPES[operand.type])  # type: ignore[type-var]
    return int(info.min), int(info.max)


def multiplier_of(real: float) -> tuple[int, int]:
    """A positive real as (mantissa in [2**30, 2**31), exponent): real = mantissa / 2**31 * 2**exponent.

    A value too small to change any 32-bit accumulator becomes 0; one that saturates all becomes the largest.
    """
    fraction, exponent = frexp(real)
    mantissa = int(fraction * (1 << 31) + 0.5)
    if mantissa == 1 << 31:
        mantissa, exponent = mantissa // 2, exponent + 1
    if real == 0 or exponent < -31:
        return 0, 0
    return (mantissa, exponent) if exponent <= 31 else ((1 << 31) - 1, 31)


def scale_fixed(values: Integers, mantissa: Integers, exponent: Integers) -> Integers:
    """``values * mantissa / 2**31 * 2**exponent`` in fixed point; mantissa and exponent broadcast over the values."""
    left = np.maximum(exponent, 0)
    right = np.maximum(-exponent, 0)
    product = _saturated(_saturated(values) << left) * mantissa
    # Half away from zero, truncating like C's integer division.
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> 31)
    # To nearest, halves away from zero.
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    scaled: Integers = (high >> right) + ((high & mask) > threshold)
    return scaled


def _saturated(values: Integers) -> Integers:
    return np.clip(values, -(1 << 31), (1 << 31) - 1)


def scale_by(values: Integers, multipliers: Array | float) -> Integers:
    """``scale_fixed`` by one positive real, or by one for each index of the last axis."""
    pairs = [multiplier_of(float(m)) for m in np.atleast_1d(np.asarray(multipliers, np.float64))]
    mantissas, exponents = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
    return scale_fixed(values, mantissas, exponents)


def requantize(values: Integers, multipliers: Array | float, output: Operand, activation: FusedActivation) -> Array:
    """Accumulators times a real multiplier, or one for each index of the last axis, as values of a quant8 output."""
    return clamp(scale_by(values, multipliers) + output.zero_point, output, activation)


def clamp(values: Array, output: Operand, activation: FusedActivation = FusedActivation.NONE) -> Array:
    """Clamp quantised values to the output's range and to that of the activation."""
    low, high = quantized_range(output, activation)
    return np.clip(values, low, high).astype(ELEMENT_TYPES[output.type])


def quantized_range(output: Operand, activation: FusedActivation) -> tuple[int, int]:
    """The least and the largest quantised value that a fused activation lets pass."""
    low, high = range_of(output)

    def quantize(real: float) -> int:
        return output.zero_point + int(np.rint(real / output.scale))

    if activation == FusedActivation.RELU:
        return max(low, quantize(0)), high
    if activation == FusedActivation.RELU1:
        return max(low, quantize(-1)), min(high, quantize(1))
    if activation == FusedActivation.RELU6:
        return max(low, quantize(0)), min(high, quantize(6))
    return low, high


def activate(values: Floats, activation: FusedActivation) -> Floats:
    if activation == FusedActivation.RELU:
        return np.maximum(values, np.float32(0))
    if activation == FusedActivation.RELU1:
        return np.clip(values, np.float32(-1), np.float32(1))
    if activation == FusedActivation.RELU6:
        return np.clip(values, np.float32(0), np.float32(6))
    return values
