"""Functions of one value."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import filled
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.operation_builder import OperationBuilder


def _same(code: OperationType) -> Callable[[NodeBuilder], None]:
    def convert(b: NodeBuilder) -> None:
        b.finish(code, [b.input(0)])

    return convert


def reciprocal(b: NodeBuilder) -> None:
    """1 / x."""
    b.finish(OperationType.DIV, [filled(b, 1), b.input(0), b.int32(0)])


def softsign(b: NodeBuilder) -> None:
    """x / (1 + |x|)."""
    size = b.apply(OperationType.ABS, [b.input(0)])
    divisor = b.apply(OperationType.ADD, [size, filled(b, 1), b.int32(0)])
    b.finish(OperationType.DIV, [b.input(0), divisor, b.int32(0)])


def is_nan(b: NodeBuilder) -> None:
    """x != x, which only NaN fulfils."""
    b.finish(OperationType.NOT_EQUAL, [b.input(0), b.input(0)])


def is_inf(b: NodeBuilder) -> None:
    """x == inf, x == -inf or both, by the node's attributes."""
    negative, positive = b.attribute("detect_negative", 1), b.attribute("detect_positive", 1)
    if negative and positive:
        b.finish(OperationType.EQUAL, [b.apply(OperationType.ABS, [b.input(0)]), filled(b, inf)])
    elif negative or positive:
        b.finish(OperationType.EQUAL, [b.input(0), filled(b, inf if positive else -inf)])
    else:
        b.finish(OperationType.LESS, [b.input(0), b.input(0)])  # false everywhere


ABS = Converter(_same(OperationType.ABS))
CEIL = Converter(OperationBuilder.ceil)
EXP = Converter(_same(OperationType.EXP))
FLOOR = Converter(_same(OperationType.FLOOR))
IS_INF = Converter(is_inf)
IS_NAN = Converter(is_nan)
LOG = Converter(_same(OperationType.LOG))
NEG = Converter(_same(OperationType.NEG))
NOT = Converter(_same(OperationType.LOGICAL_NOT))
RECIPROCAL = Converter(reciprocal)
SIN = Converter(_same(OperationType.SIN))
SOFTSIGN = Converter(softsign)
SQRT = Converter(_same(OperationType.SQRT))
