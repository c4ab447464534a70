"""Resizing of images, and exchanges between space, depth and batch."""

from __future__ import annotations

from typing import Any

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._definition import Converter

_NHWC = False


def resize(code: OperationType, kind: Any) -> Converter:
    """Convert a resize to a constant height and width. The HAL has the width first."""

    def convert(b: OperatorBuilder) -> None:
        options, sizes = b.options(kind), b.integers(1, "size")
        if len(sizes) != 2:
            raise b.unsupported(f"a size of {len(sizes)} elements", "height and width")
        flags = [options.AlignCorners, options.HalfPixelCenters]
        inputs = [b.input(0), b.int32(sizes[1]), b.int32(sizes[0]), b.boolean(_NHWC)]
        b.finish(code, inputs + ([b.boolean(flag) for flag in flags] if any(flags) else []))

    return convert


def depth_space(code: OperationType, kind: Any) -> Converter:
    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.int32(b.options(kind).BlockSize)])

    return convert


def space_to_batch(b: OperatorBuilder) -> None:
    """SPACE_TO_BATCH_ND of images."""
    b.finish(OperationType.SPACE_TO_BATCH_ND, [b.input(0), b.input(1), b.input(2)])


def batch_to_space(b: OperatorBuilder) -> None:
    """BATCH_TO_SPACE_ND of images, followed by a SLICE for crops."""
    crops = b.integers(2, "crops")
    if not any(crops):
        b.finish(OperationType.BATCH_TO_SPACE_ND, [b.input(0), b.input(1)])
        return
    images = b.apply(OperationType.BATCH_TO_SPACE_ND, [b.input(0), b.input(1)])
    _, height, width, _ = b.ranked(images)
    if len(crops) != 4 or 0 in (height, width):
        raise b.unsupported(f"crops {crops} of images of {height} x {width}", "four crops, known sizes")
    top, bottom, left, right = crops
    sizes = b.vector([-1, height - top - bottom, width - left - right, -1])
    b.finish(OperationType.SLICE, [images, b.vector([0, top, left, 0]), sizes])
