"""The arithmetic of the operations: one pure function for each, arrays in and arrays out.

A kernel takes an OperationContext whose values are all known, and gives one array for each output, in the output's
element type and dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

from nnhal.operations import OperationContext
from nnhal.types import OperationType
from nnhal_devices.cpu_ref.kernels import (
    axis_aligned_bbox_transform,
    binary,
    box_with_nms_limit,
    concatenation,
    conv_2d,
    depthwise_conv_2d,
    dequantize,
    detection_postprocessing,
    fully_connected,
    generate_proposals,
    grouped_conv_2d,
    heatmap_max_keypoint,
    logistic,
    mean,
    pad,
    pooling,
    quantize,
    relu,
    reshape,
    resize_bilinear,
    resize_nearest_neighbor,
    roi_align,
    roi_pooling,
    softmax,
    tanh,
    transpose_conv_2d,
)
from nnhal_devices.cpu_ref.kernels._types import Array

Kernel = Callable[[OperationContext], tuple[Array, ...]]

KERNELS: dict[OperationType, Kernel] = {
    OperationType.ADD: binary.add,
    OperationType.AVERAGE_POOL_2D: pooling.average_pool_2d,
    OperationType.AXIS_ALIGNED_BBOX_TRANSFORM: axis_aligned_bbox_transform.axis_aligned_bbox_transform,
    OperationType.BOX_WITH_NMS_LIMIT: box_with_nms_limit.box_with_nms_limit,
    OperationType.CONCATENATION: concatenation.concatenation,
    OperationType.CONV_2D: conv_2d.conv_2d,
    OperationType.DEPTHWISE_CONV_2D: depthwise_conv_2d.depthwise_conv_2d,
    OperationType.DEQUANTIZE: dequantize.dequantize,
    OperationType.DETECTION_POSTPROCESSING: detection_postprocessing.detection_postprocessing,
    OperationType.DIV: binary.div,
    OperationType.FULLY_CONNECTED: fully_connected.fully_connected,
    OperationType.GENERATE_PROPOSALS: generate_proposals.generate_proposals,
    OperationType.GROUPED_CONV_2D: grouped_conv_2d.grouped_conv_2d,
    OperationType.HEATMAP_MAX_KEYPOINT: heatmap_max_keypoint.heatmap_max_keypoint,
    OperationType.L2_POOL_2D: pooling.l2_pool_2d,
    OperationType.LOGISTIC: logistic.logistic,
    OperationType.MAX_POOL_2D: pooling.max_pool_2d,
    OperationType.MEAN: mean.mean,
    OperationType.MUL: binary.mul,
    OperationType.PAD: pad.pad,
    OperationType.PAD_V2: pad.pad_v2,
    OperationType.QUANTIZE: quantize.quantize,
    OperationType.RELU: relu.relu,
    OperationType.RELU1: relu.relu1,
    OperationType.RELU6: relu.relu6,
    OperationType.RESHAPE: reshape.reshape,
    OperationType.RESIZE_BILINEAR: resize_bilinear.resize_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: resize_nearest_neighbor.resize_nearest_neighbor,
    OperationType.ROI_ALIGN: roi_align.roi_align,
    OperationType.ROI_POOLING: roi_pooling.roi_pooling,
    OperationType.SOFTMAX: softmax.softmax,
    OperationType.SUB: binary.sub,
    OperationType.TANH: tanh.tanh,
    OperationType.TRANSPOSE_CONV_2D: transpose_conv_2d.transpose_conv_2d,
}
"""Every operation that cpu_ref computes."""
