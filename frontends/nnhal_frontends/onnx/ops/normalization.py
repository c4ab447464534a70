"""Normalisation over images, groups of channels, trailing axes and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter

_NCHW = True
_EPSILON = 1e-5
_CHANNELS = 1


def instance_normalization(b: NodeBuilder) -> None:
    """Normalise each image to mean 0 and variance 1, channel by channel."""
    shape = b.shape(0)
    images = shape if len(shape) == 4 else (shape[0], shape[1], 1, _length(b, shape[2:]))
    _finish_scaled(b, _in_shape(b, _normalize(b, images), shape), shape[1])


def group_normalization(b: NodeBuilder) -> None:
    """Normalise each group of channels to mean 0 and variance 1."""
    shape, groups = b.shape(0), b.attribute("num_groups", 1)
    if shape[1] % groups:
        raise b.node.unsupported(f"{shape[1]} channels in {groups} groups", "groups of one size")
    normalized = _normalize(b, (shape[0], groups, 1, _length(b, shape[1:]) // groups))
    _finish_scaled(b, b.reshape(normalized, shape), shape[1])


def layer_normalization(b: NodeBuilder) -> None:
    """Normalise over all axes from ``axis`` on to mean 0 and variance 1, with a scale for each element."""
    if b.used(1) or b.used(2):
        raise b.node.unsupported("its means or deviations are read", "the normalised values alone")
    shape = b.shape(0)
    axis = b.attribute("axis", -1)
    axis += len(shape) if axis < 0 else 0
    outer = 0 if 0 in shape[:axis] else prod(shape[:axis])
    value = b.reshape(_normalize(b, (outer, 1, 1, _length(b, shape[axis:]))), shape)
    factors = [value, b.input(1), b.int32(0)]
    if b.has(2):
        b.finish(OperationType.ADD, [b.apply(OperationType.MUL, factors), b.input(2), b.int32(0)])
    else:
        b.finish(OperationType.MUL, factors)


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
    """Scale vectors along an axis to length 1."""
    if b.attribute("p", 2) != 2:
        raise b.node.unsupported(f"p {b.attribute('p', 2)}", "p 2")
    axis = b.attribute("axis", -1)
    b.finish(OperationType.L2_NORMALIZATION, [b.input(0), b.int32(axis)])


def _length(b: NodeBuilder, shape: Sequence[int]) -> int:
    if 0 in shape:
        raise b.node.unsupported("it normalises over axes of unknown length", "fixed shapes of the model's inputs")
    return prod(shape)


def _normalize(b: NodeBuilder, images: Dimensions) -> int:
    """Normalise the first input, as images, to mean 0 and variance 1."""
    one, zero, epsilon = b.real(1.0), b.real(0.0), b.real(b.attribute("epsilon", _EPSILON))
    source = _in_shape(b, b.input(0), images)
    return b.apply(OperationType.INSTANCE_NORMALIZATION, [source, one, zero, epsilon, b.boolean(_NCHW)])


def _in_shape(b: NodeBuilder, operand: int, shape: Dimensions) -> int:
    return operand if b.operand(operand).dimensions == shape else b.reshape(operand, shape)


def _finish_scaled(b: NodeBuilder, value: int, channels: int) -> None:
    """Finish with value * scale + shift, for each channel."""
    scale, shift = (_per_channel(b, index, channels, len(b.shape(0))) for index in (1, 2))
    b.finish(OperationType.ADD, [b.apply(OperationType.MUL, [value, scale, b.int32(0)]), shift, b.int32(0)])


def _per_channel(b: NodeBuilder, index: int, channels: int, rank: int) -> int:
    """Reshape an input [channels] so that it broadcasts to images."""
    shape = (channels, *[1] * (rank - 2))
    values = b.constant(index)
    if values is None:
        return b.reshape(b.input(index), shape)
    return b.array(values.reshape(shape))


GROUP_NORMALIZATION = Converter(group_normalization)
INSTANCE_NORMALIZATION = Converter(instance_normalization)
LAYER_NORMALIZATION = Converter(layer_normalization)
LRN = Converter(local_response_normalization)
LP_NORMALIZATION = Converter(lp_normalization)
