"""Arithmetic on dimensions that several operations share. 0 is an axis of unknown size before execution."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnhal.operations._context import OperationContext, UnknownYet
from nnhal.types import Operand, OperandType
from nnhal.types.layout import Dimensions, combine, describe


def axis_of(op: OperationContext, axis: int, rank: int) -> int:
    """An axis in [-rank, rank) as one in [0, rank)."""
    if not -rank <= axis < rank:
        op.refuse(f"axis {axis} is outside [{-rank}, {rank})")
    return axis + rank if axis < 0 else axis


def broadcast(op: OperationContext, first: Dimensions, second: Dimensions) -> Dimensions:
    """The dimensions of an element-wise result: trailing axes aligned, each pair equal or one of them 1."""
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


def agreed(op: OperationContext, *indexes: int) -> Dimensions:
    """The dimensions that several inputs have in common, none of which broadcasts. Raises UnknownYet."""
    stated = [op.dimensions(index) for index in indexes]
    common: Dimensions | None = ()
    for dimensions in stated:
        common = None if common is None else combine(common, dimensions)
    if common is None or (op.executing and any(dimensions != common for dimensions in stated)):
        op.refuse(f"inputs of {' and '.join(describe(dimensions) for dimensions in stated)}, expected equal dimensions")
    if not common:
        raise UnknownYet(op.input_name(indexes[0]))
    return common


def require_dimensions(op: OperationContext, index: int, expected: Dimensions) -> None:
    """Refuse an input whose dimensions are others than expected; before execution what is unknown fits."""
    got = op.dimensions(index)
    if got != expected if op.executing else combine(got, expected) is None:
        op.refuse(f"input {index} has dimensions {describe(got)}, expected {describe(expected)}")


def integers_per_axis(op: OperationContext, index: int, of: int) -> tuple[int, ...]:
    """The values of a TENSOR_INT32 that has one for each axis of another input. Raises UnknownYet."""
    rank, values = len(op.ranked(of)), op.integers(index)
    if len(values) != rank:
        op.refuse(f"input {index} has {len(values)} elements, expected {rank}: one for each axis of input {of}")
    return values


def product_of_scales(first: Operand, second: Operand) -> float:
    """The scale of products of two operands' values, as float32 arithmetic has it."""
    return float(np.float32(first.scale) * np.float32(second.scale))


def require_output_quantization(op: OperationContext, scale: float, zero_point: int, index: int = 0) -> None:
    """Refuse an output whose quantisation is not the one that the operation fixes."""
    output = op.outputs[index]
    if output.scale != scale or output.zero_point != zero_point:
        op.refuse(
            f"output {index} has scale {output.scale} and zero point {output.zero_point}, "
            f"expected {scale} and {zero_point}"
        )


def require_input_quantization(op: OperationContext, index: int = 0, output: int = 0) -> None:
    """Refuse an output whose scale and zero point are not those of an input."""
    require_output_quantization(op, op.inputs[index].scale, op.inputs[index].zero_point, output)


QUANTIZED = frozenset({OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED})
