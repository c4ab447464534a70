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
from nnhal.operations import (
    OperationContext,
    UnknownYet,
    batch_space,
    conv_2d,
    depth_space,
    depthwise_conv_2d,
    generate_proposals,
    grouped_conv_2d,
    heatmap_max_keypoint,
    instance_normalization,
    pooling,
    roi_align,
    roi_pooling,
    transpose_conv_2d,
)
from nnhal.operations._resize import ResizeInput
from nnhal.operations._window import Forms
from nnhal.types import OperationType


@dataclass(frozen=True, slots=True)
class _Images:
    layout: IntEnum | Forms
    """The position of the layout, or the forms that have it."""
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = (0,)


_IMAGES: Mapping[OperationType, _Images] = {
    OperationType.AVERAGE_POOL_2D: _Images(pooling.FORMS),
    OperationType.BATCH_TO_SPACE_ND: _Images(batch_space.BatchToSpaceInput.LAYOUT),
    OperationType.CONV_2D: _Images(conv_2d.FORMS),
    OperationType.DEPTHWISE_CONV_2D: _Images(depthwise_conv_2d.FORMS),
    OperationType.DEPTH_TO_SPACE: _Images(depth_space.Input.LAYOUT),
    OperationType.GENERATE_PROPOSALS: _Images(generate_proposals.Input.LAYOUT, inputs=(0, 1), outputs=()),
    OperationType.GROUPED_CONV_2D: _Images(grouped_conv_2d.FORMS),
    OperationType.HEATMAP_MAX_KEYPOINT: _Images(heatmap_max_keypoint.Input.LAYOUT, outputs=()),
    OperationType.INSTANCE_NORMALIZATION: _Images(instance_normalization.Input.LAYOUT),
    OperationType.L2_POOL_2D: _Images(pooling.FORMS),
    OperationType.MAX_POOL_2D: _Images(pooling.FORMS),
    OperationType.RESIZE_BILINEAR: _Images(ResizeInput.LAYOUT),
    OperationType.RESIZE_NEAREST_NEIGHBOR: _Images(ResizeInput.LAYOUT),
    OperationType.ROI_ALIGN: _Images(roi_align.Input.LAYOUT),
    OperationType.ROI_POOLING: _Images(roi_pooling.Input.LAYOUT),
    OperationType.SPACE_TO_BATCH_ND: _Images(batch_space.SpaceToBatchInput.LAYOUT),
    OperationType.SPACE_TO_DEPTH: _Images(depth_space.Input.LAYOUT),
    OperationType.TRANSPOSE_CONV_2D: _Images(transpose_conv_2d.FORMS),
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
    if op.type == OperationType.TRANSPOSE_CONV_2D and transpose_conv_2d.FORMS.of(op) is transpose_conv_2d.Implicit:
        shape = transpose_conv_2d.Implicit.OUTPUT_SHAPE
        parameters[shape] = moved_images(op, TO_LAST, shape)
    return parameters


def _layout(op: OperationContext, images: _Images) -> int:
    return images.layout.of(op)["LAYOUT"] if isinstance(images.layout, Forms) else images.layout
