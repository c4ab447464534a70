"""Normalisations over images, groups of channels, trailing axes and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnhal.types import OperationType
from nnhal_service.frontends.onnx.builder import NodeBuilder
from nnhal_service.frontends.onnx.ops._definition import Converter

_NCHW = True
_EPSILON = 1e-5
_CHANNELS = 1
_OPSET_OF_CHANNEL_SCALES = 21
"""Since it GroupNormalization has a scale for each channel, before it one for each group."""


def instance_normalization(b: NodeBuilder) -> None:
    """Each image to mean 0 and variance 1, channel by channel."""
    shape = b.shape(0)
    normalized = _normalize(b, (shape[0], shape[1], 1, _length(b, shape[2:])))
    _scale_channels(b, normalized, [1, 2])


def group_normalization(b: NodeBuilder) -> None:
    """Each group of channels to mean 0 and variance 1."""
    if b.graph.opset < _OPSET_OF_CHANNEL_SCALES:
        raise b.node.unsupported(f"opset {b.graph.opset}, in which scales are per group", "opset 21 or later")
    shape, groups = b.shape(0), b.attribute("num_groups", 1)
    normalized = _normalize(b, (shape[0], groups, 1, _length(b, shape[1:]) // groups))
    _scale_channels(b, normalized, [1, 2])


def layer_normalization(b: NodeBuilder) -> None:
    """The axes from one on together to mean 0 and variance 1, each element with a scale of its own."""
    if b.used(1) or b.used(2):
        raise b.node.unsupported("its means or deviations are read", "the normalised values alone")
    shape = b.shape(0)
    axis = b.attribute("axis", -1)
    axis += len(shape) if axis < 0 else 0
    outer = 0 if 0 in shape[:axis] else prod(shape[:axis])
    value = b.reshape(_normalize(b, (outer, 1, 1, _length(b, shape[axis:]))), shape)
    given = [index for index in (1, 2) if b.has(index)]
    _apply(b, value, given, [b.input(index) for index in given])


def local_response_normalization(b: NodeBuilder) -> None:
    """x / (bias + alpha / size * sum of squares of ``size`` channels) ** beta."""
    size = b.attribute("size", 1)
    if size % 2 == 0:
        raise b.node.unsupported(f"size {size}, which has more channels on one side", "odd sizes")
    factors = [b.real(b.attribute("bias", 1.0)), b.real(b.attribute("alpha", 1e-4) / size)]
    exponent = b.real(b.attribute("beta", 0.75))
    inputs = [b.input(0), b.int32(size // 2), *factors, exponent, b.int32(_CHANNELS)]
    b.finish(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs)


def lp_normalization(b: NodeBuilder) -> None:
    """Vectors along an axis to length 1."""
    if b.attribute("p", 2) != 2:  # noqa: PLR2004 - an exponent
        raise b.node.unsupported(f"p {b.attribute('p', 2)}", "p 2")
    axis = b.attribute("axis", -1)
    b.finish(OperationType.L2_NORMALIZATION, [b.input(0), b.int32(axis)])


def _length(b: NodeBuilder, shape: Sequence[int]) -> int:
    if 0 in shape:
        raise b.node.unsupported("it normalises over axes of unknown length", "fixed shapes of the model's inputs")
    return prod(shape)


def _normalize(b: NodeBuilder, images: Sequence[int]) -> int:
    """The first input as images, each of mean 0 and variance 1."""
    one, zero, epsilon = b.real(1.0), b.real(0.0), b.real(b.attribute("epsilon", _EPSILON))
    source = b.reshape(b.input(0), images)
    return b.step(OperationType.INSTANCE_NORMALIZATION, [source, one, zero, epsilon, b.boolean(_NCHW)])


def _scale_channels(b: NodeBuilder, images: int, inputs: Sequence[int]) -> None:
    """A factor, then an addend for each channel."""
    shape = b.shape(0)
    value = b.reshape(images, shape)
    channels = [b.reshape(b.input(index), (shape[1], *[1] * (len(shape) - 2))) for index in inputs]
    _apply(b, value, inputs, channels)


def _apply(b: NodeBuilder, value: int, inputs: Sequence[int], operands: Sequence[int]) -> None:
    codes = {1: OperationType.MUL, 2: OperationType.ADD}
    for index, operand in list(zip(inputs, operands, strict=True))[:-1]:
        value = b.step(codes[index], [value, operand, b.int32(0)])
    b.finish(codes[inputs[-1]], [value, operands[-1], b.int32(0)])


GROUP_NORMALIZATION = Converter(group_normalization)
INSTANCE_NORMALIZATION = Converter(instance_normalization)
LAYER_NORMALIZATION = Converter(layer_normalization)
LRN = Converter(local_response_normalization)
LP_NORMALIZATION = Converter(lp_normalization)
