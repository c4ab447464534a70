"""Sums, products, norms and extremes along axes, and the indices of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm

_INT32 = Operand(OperandType.TENSOR_INT32)
_OF_BOOLS = {OperationType.REDUCE_MAX: OperationType.REDUCE_ANY, OperationType.REDUCE_MIN: OperationType.REDUCE_ALL}


def _plain(code: OperationType) -> Callable[[NodeBuilder], None]:
    def convert(b: NodeBuilder) -> None:
        chosen = _OF_BOOLS.get(code, code) if b.element_type() == np.bool_ else code
        _reduce(b, chosen, b.input(0))

    return convert


def l1(b: NodeBuilder) -> None:
    """The sum of the absolute values."""
    _reduce(b, OperationType.REDUCE_SUM, b.apply(OperationType.ABS, [b.input(0)]))


def l2(b: NodeBuilder) -> None:
    """The root of the sum of squares."""
    _reduce(b, OperationType.REDUCE_SUM, _squares(b), OperationType.SQRT)


def sum_square(b: NodeBuilder) -> None:
    _reduce(b, OperationType.REDUCE_SUM, _squares(b))


def log_sum(b: NodeBuilder) -> None:
    """The logarithm of the sum."""
    _reduce(b, OperationType.REDUCE_SUM, b.input(0), OperationType.LOG)


def arg_max(b: NodeBuilder) -> None:
    """The indices of the largest elements along an axis."""
    _arg(b, OperationType.ARGMAX)


def arg_min(b: NodeBuilder) -> None:
    """The indices of the smallest elements along an axis."""
    _arg(b, OperationType.ARGMIN)


def reduced_axes(b: NodeBuilder) -> list[int] | None:
    """Return the axes that a node reduces, in order; all if none are given, None if the node is to do nothing."""
    rank = len(b.shape(0))
    axes = b.integers(1, "axes")
    if not axes and b.attribute("noop_with_empty_axes", 0):
        return None
    return sorted(axis + rank if axis < 0 else axis for axis in axes or range(rank)) or [0]


def _squares(b: NodeBuilder) -> int:
    return b.apply(OperationType.MUL, [b.input(0), b.input(0), b.int32(0)])


def _reduce(b: NodeBuilder, code: OperationType, operand: int, then: OperationType | None = None) -> None:
    axes = reduced_axes(b)
    if axes is None:
        if operand != b.input(0) or then is not None:
            raise b.node.unsupported("noop_with_empty_axes without axes", "at least one axis")
        b.finish_reshape(operand)
        return
    inputs = [operand, b.vector(axes), b.boolean(bool(b.attribute("keepdims", 1)))]
    if then is None:
        b.finish(code, inputs)
    else:
        b.finish(then, [b.apply(code, inputs)])


def _arg(b: NodeBuilder, code: OperationType) -> None:
    if b.attribute("select_last_index", 0):
        raise b.node.unsupported("select_last_index 1, the last of equal elements", "select_last_index 0")
    rank = max(1, len(b.shape(0)))
    axis = b.attribute("axis", 0)
    inputs: Sequence[int] = [b.input(0), b.int32(axis + rank if axis < 0 else axis)]
    if b.attribute("keepdims", 1) and rank > 1:
        b.finish_reshape(b.apply(code, inputs, like=_INT32))
    else:
        b.finish(code, inputs)


def _quantized_extremum(form: QuantizedForm) -> bool:
    return form.quant8(0) and form.inputs[0] == form.output


ARG_MAX = Converter(arg_max)
ARG_MIN = Converter(arg_min)
REDUCE_L1 = Converter(l1)
REDUCE_L2 = Converter(l2)
REDUCE_LOG_SUM = Converter(log_sum)
REDUCE_MAX = Converter(_plain(OperationType.REDUCE_MAX), _quantized_extremum)
REDUCE_MIN = Converter(_plain(OperationType.REDUCE_MIN), _quantized_extremum)
REDUCE_PROD = Converter(_plain(OperationType.REDUCE_PROD))
REDUCE_SUM = Converter(_plain(OperationType.REDUCE_SUM))
REDUCE_SUM_SQUARE = Converter(sum_square)
