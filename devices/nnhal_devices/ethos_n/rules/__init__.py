"""The conditions under which ethos_n supports each operation, one module for each family."""

from __future__ import annotations

from nnhal.operations.shape import ReshapeInput
from nnhal.support.npu import npu_rule
from nnhal.support.rules import SupportRule
from nnhal.types import OperationType
from nnhal_devices.ethos_n.rules import convolution, elementwise, movement, pooling

__all__ = ["RULES"]

RULES: dict[OperationType, SupportRule] = {
    OperationType.ADD: elementwise.ADD,
    OperationType.AVERAGE_POOL_2D: pooling.AVERAGE_POOL_2D,
    OperationType.CONCATENATION: movement.CONCATENATION,
    OperationType.CONV_2D: convolution.CONV_2D,
    OperationType.DEPTHWISE_CONV_2D: convolution.DEPTHWISE_CONV_2D,
    OperationType.DEPTH_TO_SPACE: movement.DEPTH_TO_SPACE,
    OperationType.FULLY_CONNECTED: convolution.FULLY_CONNECTED,
    OperationType.LOGISTIC: npu_rule(),
    OperationType.MAX_POOL_2D: pooling.MAX_POOL_2D,
    OperationType.MEAN: pooling.MEAN,
    OperationType.MUL: elementwise.MUL,
    OperationType.RELU: npu_rule(),
    OperationType.RELU1: npu_rule(),
    OperationType.RELU6: npu_rule(),
    OperationType.RESHAPE: npu_rule(constants=(ReshapeInput.SHAPE,)),
    OperationType.RESIZE_BILINEAR: movement.RESIZE,
    OperationType.RESIZE_NEAREST_NEIGHBOR: movement.RESIZE,
    OperationType.SPLIT: movement.SPLIT,
    OperationType.TANH: npu_rule(),
    OperationType.TRANSPOSE: movement.TRANSPOSE,
    OperationType.TRANSPOSE_CONV_2D: convolution.TRANSPOSE_CONV_2D,
}
