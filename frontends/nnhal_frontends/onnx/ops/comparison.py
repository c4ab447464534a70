"""Comparisons, logic, and Where."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import broadcast_input
from nnhal_frontends.onnx.ops._definition import Converter


def _pairwise(code: OperationType) -> Callable[[NodeBuilder], None]:
    def convert(b: NodeBuilder) -> None:
        b.finish(code, [b.input(0), b.input(1)])

    return convert


def where(b: NodeBuilder) -> None:
    """The second input if the first is true, otherwise the third. SELECT needs all three in one shape."""
    if b.element_type(1).kind == "b":
        chosen = b.apply(OperationType.LOGICAL_AND, [b.input(0), b.input(1)])
        rest = b.apply(OperationType.LOGICAL_NOT, [b.input(0)])
        b.finish(OperationType.LOGICAL_OR, [chosen, b.apply(OperationType.LOGICAL_AND, [rest, b.input(2)])])
        return
    shape = b.output_shape() or (1,)
    b.finish(OperationType.SELECT, [broadcast_input(b, index, shape) for index in range(3)])


AND = Converter(_pairwise(OperationType.LOGICAL_AND))
EQUAL = Converter(_pairwise(OperationType.EQUAL))
GREATER = Converter(_pairwise(OperationType.GREATER))
GREATER_OR_EQUAL = Converter(_pairwise(OperationType.GREATER_EQUAL))
LESS = Converter(_pairwise(OperationType.LESS))
LESS_OR_EQUAL = Converter(_pairwise(OperationType.LESS_EQUAL))
OR = Converter(_pairwise(OperationType.LOGICAL_OR))
WHERE = Converter(where, lambda form: form.quant8(1, 2))
XOR = Converter(_pairwise(OperationType.NOT_EQUAL))
