"""Operations whose quantised result has a fixed scale in the HAL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.types import OperandType, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder


@dataclass(frozen=True, slots=True)
class FixedRange:
    """The fixed scale, and the zero points by operand type."""

    scale: float
    zero_points: Mapping[int, int]


UNIT = FixedRange(1 / 256, {OperandType.TENSOR_QUANT8_ASYMM: 0, OperandType.TENSOR_QUANT8_ASYMM_SIGNED: -128})
"""[0, 1)."""
SIGNED_UNIT = FixedRange(1 / 128, {OperandType.TENSOR_QUANT8_ASYMM: 128, OperandType.TENSOR_QUANT8_ASYMM_SIGNED: 0})
"""[-1, 1)."""


def finish_fixed(b: OperatorBuilder, code: OperationType, expected: FixedRange, parameters: Sequence[int] = ()) -> None:
    """Give the result of an operation on the first input, in floats if TFLite's result has another scale."""
    result = b.operand(b.result())
    quantized = b.is_quantized(b.result())
    if quantized and (result.scale, result.zero_point) != (expected.scale, expected.zero_points[result.type]):
        b.finish_reals(code, [b.reals(0), *parameters])
    else:
        b.finish(code, [b.input(0), *parameters])
