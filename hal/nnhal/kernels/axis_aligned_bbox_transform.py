"""AXIS_ALIGNED_BBOX_TRANSFORM."""

from __future__ import annotations

from nnhal.kernels._boxes import require_boxes, transform
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.boxes import BOX, AxisAlignedBboxTransformInput


def axis_aligned_bbox_transform(op: OperationContext) -> tuple[Array, ...]:
    """Each region's deltas for each class, applied and clipped to the region's image."""
    rois, deltas, images = (
        to_real(op, AxisAlignedBboxTransformInput.ROIS),
        to_real(op, AxisAlignedBboxTransformInput.DELTAS),
        to_real(op, AxisAlignedBboxTransformInput.IMAGE_INFO),
    )
    require_boxes(op, rois)
    by_class = deltas.reshape(len(rois), deltas.shape[1] // BOX, BOX)
    boxes = transform(rois[:, None], by_class, images[op.value(AxisAlignedBboxTransformInput.BATCH_INDEX)][:, None])
    return (from_real(op, boxes.reshape(deltas.shape)),)
