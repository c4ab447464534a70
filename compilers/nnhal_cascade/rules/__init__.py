"""The conditions under which ethos_u supports each operation, one module for each family."""

from __future__ import annotations

from nnhal.support.npu import NpuRule
from nnhal.types import OperationType
from nnhal_cascade.rules import convolution, elementwise, images, movement, pooling

__all__ = ["RULES"]

RULES: dict[OperationType, NpuRule] = {
    OperationType.ADD: elementwise.ARITHMETIC,
    OperationType.AVERAGE_POOL_2D: pooling.AVERAGE_POOL_2D,
    OperationType.CONCATENATION: movement.CONCATENATION,
    OperationType.CONV_2D: convolution.CONV_2D,
    OperationType.DEPTHWISE_CONV_2D: convolution.DEPTHWISE_CONV_2D,
    OperationType.EXPAND_DIMS: movement.EXPAND_DIMS,
    OperationType.FULLY_CONNECTED: convolution.FULLY_CONNECTED,
    OperationType.HARD_SWISH: NpuRule(),
    OperationType.LOGISTIC: NpuRule(),
    OperationType.MAXIMUM: elementwise.EXTREMUM,
    OperationType.MAX_POOL_2D: pooling.MAX_POOL_2D,
    OperationType.MEAN: pooling.MEAN,
    OperationType.MINIMUM: elementwise.EXTREMUM,
    OperationType.MUL: elementwise.ARITHMETIC,
    OperationType.PAD: movement.PAD,
    OperationType.PAD_V2: movement.PAD,
    OperationType.PRELU: elementwise.PRELU,
    OperationType.RELU: NpuRule(),
    OperationType.RELU1: NpuRule(),
    OperationType.RELU6: NpuRule(),
    OperationType.RESHAPE: movement.RESHAPE,
    OperationType.RESIZE_BILINEAR: images.BILINEAR,
    OperationType.RESIZE_NEAREST_NEIGHBOR: images.NEAREST,
    OperationType.RSQRT: elementwise.RSQRT,
    OperationType.SLICE: movement.SLICE,
    OperationType.SOFTMAX: elementwise.SOFTMAX,
    OperationType.SPLIT: movement.SPLIT,
    OperationType.SQUEEZE: movement.SQUEEZE,
    OperationType.STRIDED_SLICE: movement.STRIDED_SLICE,
    OperationType.SUB: elementwise.ARITHMETIC,
    OperationType.TANH: NpuRule(),
    OperationType.TRANSPOSE_CONV_2D: convolution.TRANSPOSE_CONV_2D,
}
