"""Operations on images with an input that says whether channels come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.axis_parameters import moved_images
from nnhal.layouts.layout_graph import Behaviour, Converts, Keeps
from nnhal.layouts.orders import TO_LAST
from nnhal.operations import OperationContext, UnknownYet
from nnhal.operations.boxes import GenerateProposalsInput
from nnhal.operations.convolution import (
    CONV_2D_FORMS,
    DEPTHWISE_CONV_2D_FORMS,
    GROUPED_CONV_2D_FORMS,
    TRANSPOSE_CONV_2D_FORMS,
    TransposeConv2dImplicit,
)
from nnhal.operations.movement import BatchToSpaceInput, DepthSpaceInput, SpaceToBatchInput
from nnhal.operations.normalization import InstanceNormalizationInput
from nnhal.operations.pooling import FORMS
from nnhal.operations.regions import HeatmapMaxKeypointInput, RoiAlignInput, RoiPoolingInput
from nnhal.operations.resize import ResizeInput
from nnhal.operations.windows import Forms
from nnhal.types import OperationType


@dataclass(frozen=True, slots=True)
class _Images:
    layout: IntEnum | Forms
    """The position of the layout, or the forms that have it."""
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = (0,)


_IMAGES: Mapping[OperationType, _Images] = {
    OperationType.AVERAGE_POOL_2D: _Images(FORMS),
    OperationType.BATCH_TO_SPACE_ND: _Images(BatchToSpaceInput.LAYOUT),
    OperationType.CONV_2D: _Images(CONV_2D_FORMS),
    OperationType.DEPTHWISE_CONV_2D: _Images(DEPTHWISE_CONV_2D_FORMS),
    OperationType.DEPTH_TO_SPACE: _Images(DepthSpaceInput.LAYOUT),
    OperationType.GENERATE_PROPOSALS: _Images(GenerateProposalsInput.LAYOUT, inputs=(0, 1), outputs=()),
    OperationType.GROUPED_CONV_2D: _Images(GROUPED_CONV_2D_FORMS),
    OperationType.HEATMAP_MAX_KEYPOINT: _Images(HeatmapMaxKeypointInput.LAYOUT, outputs=()),
    OperationType.INSTANCE_NORMALIZATION: _Images(InstanceNormalizationInput.LAYOUT),
    OperationType.L2_POOL_2D: _Images(FORMS),
    OperationType.MAX_POOL_2D: _Images(FORMS),
    OperationType.RESIZE_BILINEAR: _Images(ResizeInput.LAYOUT),
    OperationType.RESIZE_NEAREST_NEIGHBOR: _Images(ResizeInput.LAYOUT),
    OperationType.ROI_ALIGN: _Images(RoiAlignInput.LAYOUT),
    OperationType.ROI_POOLING: _Images(RoiPoolingInput.LAYOUT),
    OperationType.SPACE_TO_BATCH_ND: _Images(SpaceToBatchInput.LAYOUT),
    OperationType.SPACE_TO_DEPTH: _Images(DepthSpaceInput.LAYOUT),
    OperationType.TRANSPOSE_CONV_2D: _Images(TRANSPOSE_CONV_2D_FORMS),
}


def image_behaviour(op: OperationContext) -> Behaviour | None:
    """Return how an operation on images behaves, None for any other.

    It converts if it is known to have channels first. One with channels last stays as it is.
    """
    images = _IMAGES.get(op.type)
    if images is None:
        return None
    try:
        if not op.boolean(_layout(op, images)):
            return Keeps(known=bool(images.outputs))
        channels_last_parameters(op)
    except UnknownYet:
        return Keeps()
    return Converts(dict.fromkeys(images.inputs, TO_LAST), dict.fromkeys(images.outputs, TO_LAST))


def channels_last_parameters(op: OperationContext) -> Mapping[int, Array]:
    """Return the parameters that change if images with channels first become such with channels last, by position.

    Filters are the same for both. Raises UnknownYet if the size of an output is no constant.
    """
    parameters = {_layout(op, _IMAGES[op.type]): np.array(False, np.uint8)}
    if op.type == OperationType.TRANSPOSE_CONV_2D and TRANSPOSE_CONV_2D_FORMS.of(op) is TransposeConv2dImplicit:
        shape = TransposeConv2dImplicit.OUTPUT_SHAPE
        parameters[shape] = moved_images(op, TO_LAST, shape)
    return parameters


def _layout(op: OperationContext, images: _Images) -> int:
    return images.layout.of(op)["LAYOUT"] if isinstance(images.layout, Forms) else images.layout
