"""Max, Min, Sum and Mean of any number of tensors that broadcast."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import filled
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm


def maximum(b: NodeBuilder) -> None:
    """The largest of the tensors, element by element."""
    _chain(b, OperationType.MAXIMUM)


def minimum(b: NodeBuilder) -> None:
    """The smallest of the tensors, element by element."""
    _chain(b, OperationType.MINIMUM)


def total(b: NodeBuilder) -> None:
    """The sum of the tensors."""
    value, *others = [b.input(index) for index in range(len(b.node.inputs))]
    if not others:
        b.finish_activated(OperationType.RESHAPE, [value, b.shape_constant(b.output_shape())])
        return
    for other in others[:-1]:
        value = b.apply(OperationType.ADD, [value, other, b.int32(0)])
    b.finish(OperationType.ADD, [value, others[-1], b.activation()])


def mean(b: NodeBuilder) -> None:
    """The sum of the tensors, divided by their number."""
    value = b.input(0)
    for index in range(1, len(b.node.inputs)):
        value = b.apply(OperationType.ADD, [value, b.input(index), b.int32(0)])
    b.finish(OperationType.DIV, [value, filled(b, len(b.node.inputs)), b.int32(0)])


def _chain(b: NodeBuilder, code: OperationType) -> None:
    value, *others = [b.input(index) for index in range(len(b.node.inputs))]
    if not others:
        b.finish_reshape(value)
        return
    for other in others[:-1]:
        value = b.apply(code, [value, other])
    b.finish(code, [value, others[-1]])


def _quantized_pair(form: QuantizedForm) -> bool:
    """Return whether there are two tensors: an intermediate sum of more would need a scale of its own."""
    return len(form.node.inputs) == 2 and form.quant8(0, 1)


def _quantized_extremum(form: QuantizedForm) -> bool:
    """Return whether there are at most two tensors, or any number in one scale, so that nothing is rounded."""
    count = len(form.node.inputs)
    return form.quant8(*range(count)) and (count <= 2 or len({*form.inputs, form.output}) == 1)


MAX = Converter(maximum, _quantized_extremum)
MEAN = Converter(mean)
MIN = Converter(minimum, _quantized_extremum)
SUM = Converter(total, _quantized_pair)
