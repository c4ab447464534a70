"""The table of ethos_n: for each operation what it takes of it, and what a stripe of its output needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nnhal.operations import OperationContext
from nnhal.operations.shape import ReshapeInput
from nnhal.support.npu import npu_rule
from nnhal.support.rules import SupportRule
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.ethos_n import geometry
from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.rules import convolution, elementwise, movement, pooling


class StripedOperation(NamedTuple):
    """The treatment of an operation by ethos_n."""

    rule: SupportRule
    geometry: Callable[[OperationContext, Sequence[Dimensions]], Geometry] = geometry.by_element
    """Returns what decides its stripes, for the dimensions of its outputs."""


TABLE: Mapping[OperationType, StripedOperation] = {
    OperationType.ADD: StripedOperation(elementwise.ADD),
    OperationType.AVERAGE_POOL_2D: StripedOperation(pooling.AVERAGE_POOL_2D, geometry.pooled),
    OperationType.CONCATENATION: StripedOperation(movement.CONCATENATION),
    OperationType.CONV_2D: StripedOperation(convolution.CONV_2D, geometry.conv_2d),
    OperationType.DEPTHWISE_CONV_2D: StripedOperation(convolution.DEPTHWISE_CONV_2D, geometry.depthwise_conv_2d),
    OperationType.DEPTH_TO_SPACE: StripedOperation(movement.DEPTH_TO_SPACE, geometry.depth_to_space),
    OperationType.FULLY_CONNECTED: StripedOperation(convolution.FULLY_CONNECTED, geometry.fully_connected),
    OperationType.LOGISTIC: StripedOperation(npu_rule()),
    OperationType.MAX_POOL_2D: StripedOperation(pooling.MAX_POOL_2D, geometry.pooled),
    OperationType.MEAN: StripedOperation(pooling.MEAN, geometry.averaged),
    OperationType.MUL: StripedOperation(elementwise.MUL),
    OperationType.RELU: StripedOperation(npu_rule()),
    OperationType.RELU1: StripedOperation(npu_rule()),
    OperationType.RELU6: StripedOperation(npu_rule()),
    OperationType.RESHAPE: StripedOperation(npu_rule(constants=(ReshapeInput.SHAPE,))),
    OperationType.RESIZE_BILINEAR: StripedOperation(movement.RESIZE, geometry.doubled),
    OperationType.RESIZE_NEAREST_NEIGHBOR: StripedOperation(movement.RESIZE, geometry.doubled),
    OperationType.SPLIT: StripedOperation(movement.SPLIT),
    OperationType.TANH: StripedOperation(npu_rule()),
    OperationType.TRANSPOSE: StripedOperation(movement.TRANSPOSE),
    OperationType.TRANSPOSE_CONV_2D: StripedOperation(convolution.TRANSPOSE_CONV_2D, geometry.transpose_conv_2d),
}


def geometry_of(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    """Return what decides the stripes of a supported operation."""
    return TABLE[OperationType(op.type)].geometry(op, outputs)
