"""Arithmetic on dimensions that several operations share. Before execution, 0 is an axis of unknown size."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nnhal.operations.context import OperationContext, UnknownYet
from nnhal.types import Operand, OperandType
from nnhal.types.layout import Dimensions, combine, describe


def axis_of(op: OperationContext, axis: int, rank: int) -> int:
    """Convert an axis in [-rank, rank) to one in [0, rank). Refuse any other."""
    if not -rank <= axis < rank:
        op.refuse(f"axis {axis}, expected {-rank} to {rank - 1}")
    return axis + rank if axis < 0 else axis


def broadcast(op: OperationContext, first: Dimensions, second: Dimensions) -> Dimensions:
    """Return the dimensions of an element-wise result. Trailing axes are aligned; each pair is equal or has a 1."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    result = []
    for a, b in pairs:
        if a != b and 1 not in (a, b) and (op.executing or 0 not in (a, b)):
            op.refuse(f"inputs of {describe(first)} and {describe(second)} do not broadcast")
        result.append(b if a == 1 else a if b == 1 else max(a, b))
    return tuple(result)


def reduced(dimensions: Dimensions, axes: Collection[int], keep: bool) -> Dimensions:
    """Return the dimensions after a reduction over axes in [0, rank); [1] if no axis would remain."""
    if keep:
        return tuple(1 if axis in axes else length for axis, length in enumerate(dimensions))
    return tuple(length for axis, length in enumerate(dimensions) if axis not in axes) or (1,)


def agreed(op: OperationContext, *indexes: int) -> Dimensions:
    """Return the common dimensions of several inputs, which do not broadcast. Raises UnknownYet."""
    given = [op.dimensions(index) for index in indexes]
    common: Dimensions | None = ()
    for dimensions in given:
        common = None if common is None else combine(common, dimensions)
    if common is None or (op.executing and any(dimensions != common for dimensions in given)):
        op.refuse(f"inputs of {' and '.join(describe(dimensions) for dimensions in given)}, expected equal dimensions")
    if not common:
        raise UnknownYet(op.input_name(indexes[0]))
    return common


def require_dimensions(op: OperationContext, index: int, expected: Dimensions) -> None:
    """Refuse an input without the expected dimensions. Before execution, unknown dimensions fit."""
    got = op.dimensions(index)
    if got != expected if op.executing else combine(got, expected) is None:
        op.refuse(f"input {index} has dimensions {describe(got)}, expected {describe(expected)}")


def integers_per_axis(op: OperationContext, index: int, of: int) -> tuple[int, ...]:
    """Return the values of a TENSOR_INT32, one for each axis of input ``of``. Raises UnknownYet."""
    rank, values = len(op.ranked(of)), op.integers(index)
    if len(values) != rank:
        op.refuse(f"input {index} has {len(values)} elements, expected {rank}: one for each axis of input {of}")
    return values


def product_of_scales(first: Operand, second: Operand) -> float:
    """Return the scale of products of two operands' values, computed in float32."""
    return float(np.float32(first.scale) * np.float32(second.scale))


def require_output_quantization(op: OperationContext, scale: float, zero_point: int, index: int = 0) -> None:
    """Refuse an output unless it has the quantisation that the operation prescribes."""
    output = op.outputs[index]
    if output.scale != scale or output.zero_point != zero_point:
        op.refuse(
            f"output {index} has scale {output.scale} and zero point {output.zero_point}, "
            f"expected {scale} and {zero_point}"
        )


def require_input_quantization(op: OperationContext, index: int = 0, output: int = 0) -> None:
    """Refuse an output unless it has the scale and zero point of an input."""
    require_output_quantization(op, op.inputs[index].scale, op.inputs[index].zero_point, output)


QUANTIZED = frozenset({OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED})
