"""Relu, Clip, Sigmoid, Tanh, Softmax and LogSoftmax, where no other operation has taken them along."""

from __future__ import annotations

from math import isinf, prod

import numpy as np

from nnhal.types import OperationType
from nnhal_service.frontends.onnx.builder import ACTIVATIONS, OPERAND_TYPES, NodeBuilder
from nnhal_service.frontends.onnx.fusion import activation_of, clip_bounds
from nnhal_service.frontends.onnx.graph import Quantization
from nnhal_service.frontends.onnx.ops._definition import Converter
from nnhal_service.frontends.onnx.qdq import QuantizedForm

_PER_CHANNEL_OPSET = 13
"""Before it Softmax runs over all axes from ``axis`` on together, afterwards along one."""


def relu(b: NodeBuilder) -> None:
    """max(x, 0)."""
    b.finish(OperationType.RELU, [b.input(0)])


def clip(b: NodeBuilder) -> None:
    """RELU, RELU1 or RELU6 where the bounds are theirs, else MAXIMUM and MINIMUM."""
    activation = activation_of(b.graph, b.node)
    if activation is not None:
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
        value = b.step(code, [value, bound])
    code, bound = given[-1]
    b.finish(code, [value, bound])


def sigmoid(b: NodeBuilder) -> None:
    """1 / (1 + exp(-x))."""
    b.finish(OperationType.LOGISTIC, [b.input(0)])


def tanh(b: NodeBuilder) -> None:
    """The hyperbolic tangent."""
    b.finish(OperationType.TANH, [b.input(0)])


def softmax(b: NodeBuilder) -> None:
    """Softmax along an axis."""
    _along_axis(b, OperationType.SOFTMAX)


def log_softmax(b: NodeBuilder) -> None:
    """The logarithm of softmax along an axis."""
    _along_axis(b, OperationType.LOG_SOFTMAX)


def _bound(b: NodeBuilder, index: int, value: float | None) -> int:
    """A bound as an operand of the input's type."""
    if value is None:
        return b.input(index)
    operand = b.operand(b.input(0))
    quantization = b.quantization(0)
    if quantization is None:
        return b.add_constant(OPERAND_TYPES[b.element_type()], np.array([value], b.element_type()))
    limits = np.iinfo(quantization.element_type)  # type: ignore[type-var]
    quantized = np.clip(np.rint(value / quantization.scale) + quantization.zero_point, limits.min, limits.max)
    return b.add_constant(
        OPERAND_TYPES[quantization.element_type],
        np.array([quantized], quantization.element_type),
        scale=operand.scale,
        zero_point=operand.zero_point,
    )


def _along_axis(b: NodeBuilder, code: OperationType) -> None:
    """The HAL's softmax runs along one axis; a model that wants several together gets them as one."""
    shape = b.shape(0)
    rank = len(shape)
    one_axis = b.graph.opset >= _PER_CHANNEL_OPSET
    axis = b.attribute("axis", -1 if one_axis else 1)
    axis += rank if axis < 0 else 0
    if one_axis or (axis < rank and all(length == 1 for length in shape[axis + 1 :])):
        b.finish(code, [b.input(0), *_parameters(b, code, axis, rank)])
        return
    together = (0 if 0 in shape[:axis] else prod(shape[:axis]), 0 if 0 in shape[axis:] else prod(shape[axis:]))
    flat = b.reshape(b.input(0), together)
    b.finish_reshape(b.step(code, [flat, *_parameters(b, code, 1, 2)], like=b.result()))


def _parameters(b: NodeBuilder, code: OperationType, axis: int, rank: int) -> list[int]:
    """Beta and axis. SOFTMAX has run along the last axis since the first feature level, without being told."""
    beta = b.real(1.0)
    if code == OperationType.SOFTMAX and axis == rank - 1:
        return [beta]
    return [beta, b.int32(axis)]


def _quantized_clip(form: QuantizedForm) -> bool:
    """In the input's scale, between constant bounds."""
    known = form.quant8(0) and form.inputs[0] == form.output
    return known and clip_bounds(form.graph, form.node) is not None


def _fixed(output: Quantization, scale: float, zero_points: tuple[int, int]) -> bool:
    """Whether an output has the scale and zero point (of uint8, of int8) that the HAL fixes."""
    expected = zero_points[0] if output.element_type == np.uint8 else zero_points[1]
    return (output.scale, output.zero_point) == (scale, expected)


def _quantized_probability(form: QuantizedForm) -> bool:
    return form.quant8(0) and _fixed(form.output, 1 / 256, (0, -128))


def _quantized_tanh(form: QuantizedForm) -> bool:
    return form.quant8(0) and _fixed(form.output, 1 / 128, (128, 0))


RELU = Converter(relu)
CLIP = Converter(clip, _quantized_clip)
SIGMOID = Converter(sigmoid, _quantized_probability)
TANH = Converter(tanh, _quantized_tanh)
SOFTMAX = Converter(softmax, _quantized_probability)
LOG_SOFTMAX = Converter(log_softmax)
