"""Arithmetic on dimensions that several operations share. 0 is an axis of unknown size before execution."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnhal.operations._context import OperationContext
from nnhal.types import Operand, OperandType
from nnhal.types.layout import Dimensions, describe


def axis_of(op: OperationContext, axis: int, rank: int) -> int:
    """An axis in [-rank, rank) as one in [0, rank)."""
    if not -rank <= axis < rank:
        op.refuse(f"axis {axis} is outside [{-rank}, {rank})")
    return axis + rank if axis < 0 else axis


def broadcast(op: OperationContext, first: Dimensions, second: Dimensions) -> Dimensions:
    """The dimensions of an element-wise result: trailing axes aligned, each pair equal or one of them 1 (§3.3)."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    result = []
    for a, b in pairs:
        if a != b and 1 not in (a, b) and (op.executing or 0 not in (a, b)):
            op.refuse(f"{describe(first)} and {describe(second)} do not broadcast")
        result.append(b if a == 1 else a if b == 1 else max(a, b))
    return tuple(result)


def reduced(dimensions: Dimensions, axes: Collection[int], keep: bool) -> Dimensions:
    """The dimensions after a reduction over axes in [0, rank); [1] where nothing would remain."""
    if keep:
        return tuple(1 if axis in axes else length for axis, length in enumerate(dimensions))
    return tuple(length for axis, length in enumerate(dimensions) if axis not in axes) or (1,)


def product_of_scales(first: Operand, second: Operand) -> float:
    """The scale of products of two operands' values, as float32 arithmetic has it."""
    return float(np.float32(first.scale) * np.float32(second.scale))


def require_output_quantization(op: OperationContext, scale: float, zero_point: int) -> None:
    """Refuse an output whose quantisation is not the one that the operation fixes."""
    output = op.outputs[0]
    if output.scale != scale or output.zero_point != zero_point:
        op.refuse(
            f"the output has scale {output.scale} and zero point {output.zero_point}, expected {scale} and {zero_point}"
        )


def require_input_quantization(op: OperationContext, index: int = 0) -> None:
    """Refuse an output whose scale and zero point are not those of an input."""
    require_output_quantization(op, op.inputs[index].scale, op.inputs[index].zero_point)


QUANTIZED = frozenset({OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED})
