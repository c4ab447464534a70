"""Relu and Clip that have not been fused into another operation."""

from __future__ import annotations

from math import isinf

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.fusion import activation_of, clip_bounds
from nnhal_frontends.onnx.ops._broadcast import filled
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm
from nnhal_frontends.operation_builder import ACTIVATIONS


def relu(b: NodeBuilder) -> None:
    """max(x, 0)."""
    b.finish(OperationType.RELU, [b.input(0)])


def clip(b: NodeBuilder) -> None:
    """RELU, RELU1 or RELU6 if the bounds are theirs, otherwise MAXIMUM and MINIMUM."""
    activation = activation_of(b.graph, b.node)
    if activation is not None and b.operand(b.input(0)).type != OperandType.TENSOR_INT32:
        b.finish(ACTIVATIONS[activation], [b.input(0)])
        return
    bounds = clip_bounds(b.graph, b.node)
    sides = [(OperationType.MAXIMUM, 1, "min"), (OperationType.MINIMUM, 2, "max")]
    given = [
        (code, _bound(b, index, None if bounds is None else bounds[index - 1]))
        for code, index, attribute in sides
        if (b.has(index) or attribute in b.node.attributes) and not (bounds and isinf(bounds[index - 1]))
    ]
    if not given:
        b.finish_reshape(b.input(0))
        return
    value = b.input(0)
    for code, bound in given[:-1]:
        value = b.apply(code, [value, bound])
    code, bound = given[-1]
    b.finish(code, [value, bound])


def _bound(b: NodeBuilder, index: int, value: float | None) -> int:
    """Add a bound as an operand of the input's type."""
    if value is None:
        return b.input(index)
    operand = b.operand(b.input(0))
    quantization = b.quantization(0)
    if quantization is None:
        return filled(b, value)
    limits = np.iinfo(quantization.element_type.name)
    quantized = np.clip(np.rint(value / quantization.scale) + quantization.zero_point, limits.min, limits.max)
    return b.add_constant(
        OPERAND_TYPES[quantization.element_type],
        np.array([quantized], quantization.element_type),
        scale=operand.scale,
        zero_point=operand.zero_point,
    )


def _quantized_clip(form: QuantizedForm) -> bool:
    """Return whether the result has the input's scale and the bounds are constant."""
    known = form.quant8(0) and form.inputs[0] == form.output
    return known and clip_bounds(form.graph, form.node) is not None


RELU = Converter(relu)
CLIP = Converter(clip, _quantized_clip)
