"""GELU in operations on floats, since the HAL has none: x times the normal distribution's function at x."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal_frontends.operation_builder import OperationBuilder

_SLOPE = 0.3275911
_COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Abramowitz and Stegun, 7.1.26: erfc(z) is exp(-z²) times t times the polynomial of t = 1 / (1 + slope z)."""


def tanh_gelu(b: OperationBuilder, operand: int) -> list[int]:
    """Return the inputs of the MUL that gives x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x³)))."""
    x = _Reals(b, operand)
    gate = ((x * x * 0.044715 + 1) * (x * sqrt(2 / pi))).of(OperationType.TANH) + 1
    return [(x * 0.5).operand, gate.operand, b.int32(FusedActivation.NONE)]


def exact_gelu(b: OperationBuilder, operand: int) -> list[int]:
    """Return the inputs of the SUB that gives max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), within 1e-7 * |x|."""
    x = _Reals(b, operand)
    size = x.of(OperationType.ABS)
    t = (size * (_SLOPE / sqrt(2)) + 1).inverse()
    first, *others = _COEFFICIENTS
    polynomial = t * first
    for each in others:
        polynomial = (polynomial + each) * t
    tail = (x * x * -0.5).of(OperationType.EXP) * polynomial
    return [x.of(OperationType.RELU).operand, (size * 0.5 * tail).operand, b.int32(FusedActivation.NONE)]


@dataclass(frozen=True, slots=True)
class _Reals:
    """A tensor of floats, whose arithmetic adds operations."""

    b: OperationBuilder
    operand: int

    def __mul__(self, other: _Reals | float) -> _Reals:
        return self._with(OperationType.MUL, other)

    def __add__(self, other: _Reals | float) -> _Reals:
        return self._with(OperationType.ADD, other)

    def inverse(self) -> _Reals:
        return self._number(1)._with(OperationType.DIV, self)

    def of(self, function: OperationType) -> _Reals:
        return _Reals(self.b, self.b.apply(function, [self.operand]))

    def _with(self, code: OperationType, other: _Reals | float) -> _Reals:
        second = other if isinstance(other, _Reals) else self._number(other)
        return _Reals(self.b, self.b.apply(code, [self.operand, second.operand, self.b.int32(FusedActivation.NONE)]))

    def _number(self, value: float) -> _Reals:
        code = OperandType(self.b.operand(self.operand).type)
        return _Reals(self.b, self.b.add_constant(code, np.array([value])))
