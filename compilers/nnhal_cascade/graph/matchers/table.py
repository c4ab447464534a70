"""The matcher of each operation."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.types import OperationType
from nnhal_cascade.graph.cascader_graph import Activation
from nnhal_cascade.graph.matchers import convolution, elementwise, movement, pooling, resize
from nnhal_cascade.graph.matchers.match import Matcher

ACTIVATIONS: Mapping[OperationType, Activation] = {
    OperationType.HARD_SWISH: Activation.TABLE,
    OperationType.LOGISTIC: Activation.TABLE,
    OperationType.RELU: Activation.CLAMP,
    OperationType.RELU1: Activation.CLAMP,
    OperationType.RELU6: Activation.CLAMP,
    OperationType.RSQRT: Activation.TABLE,
    OperationType.TANH: Activation.TABLE,
}
"""Functions of one element, which the NPU applies to the output of another operation if there is one."""

VIEWS = frozenset({OperationType.EXPAND_DIMS, OperationType.RESHAPE, OperationType.SQUEEZE})
"""Operations whose output has the bytes of the input."""

MATCHERS: Mapping[OperationType, Matcher] = {
    OperationType.ADD: elementwise.match_arithmetic,
    OperationType.AVERAGE_POOL_2D: pooling.match_pooling,
    OperationType.CONCATENATION: movement.match_concatenation,
    OperationType.CONV_2D: convolution.match_conv_2d,
    OperationType.DEPTHWISE_CONV_2D: convolution.match_depthwise_conv_2d,
    OperationType.FULLY_CONNECTED: convolution.match_fully_connected,
    OperationType.MAXIMUM: elementwise.match_pair,
    OperationType.MAX_POOL_2D: pooling.match_pooling,
    OperationType.MEAN: pooling.match_mean,
    OperationType.MINIMUM: elementwise.match_pair,
    OperationType.MUL: elementwise.match_arithmetic,
    OperationType.PAD: movement.match_pad,
    OperationType.PAD_V2: movement.match_pad,
    OperationType.PRELU: elementwise.match_prelu,
    OperationType.RESIZE_BILINEAR: resize.match_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: resize.match_nearest,
    OperationType.SLICE: movement.match_slice,
    OperationType.SOFTMAX: elementwise.match_softmax,
    OperationType.SPLIT: movement.match_split,
    OperationType.STRIDED_SLICE: movement.match_strided_slice,
    OperationType.SUB: elementwise.match_arithmetic,
    OperationType.TRANSPOSE_CONV_2D: convolution.match_transpose_conv_2d,
    **{kind: elementwise.match_activation(activation) for kind, activation in ACTIVATIONS.items()},
}
"""All operations that become parts. Those of ``VIEWS`` become none."""
