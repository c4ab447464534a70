"""Resize and Upsample as RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR or GATHER.

ONNX has many ways to get from a pixel of the result to a position in the image, and from a position to the nearest
pixel. Whether one of the HAL's three is equivalent depends on the sizes, so the results are compared pixel by pixel. If
none is equivalent, nearest pixels are gathered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnhal.extensions.resizing import HALF, SIMPLE, Indices, Places, ResizedAxis
from nnhal.types import OperandType, OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.ops._window import image

_NCHW = True
_FIRST_WITH_MODES = 11
"""Before this opset coordinates are asymmetric, and the nearest pixel is the one that contains the position."""
_LINEAR = {
    "asymmetric": (False, False),
    "align_corners": (True, False),
    "half_pixel": (False, True),
    "pytorch_half_pixel": (False, True),
}
"""The flags align_corners and half_pixel_centers of RESIZE_BILINEAR."""
_FLAGS = ((False, False), (True, False), (False, True))


def convert(b: NodeBuilder) -> None:
    """Resize the axes whose length changes."""
    axes = _resized_axes(b)
    mode = b.attribute("mode", "nearest")
    if not axes or b.shape(0) == b.output_shape():  # as in ONNX Runtime, whatever the factors are
        b.finish_reshape(b.input(0))
    elif mode == "nearest":
        _nearest(b, axes)
    elif mode == "linear":
        _linear(b, axes)
    else:
        raise b.node.unsupported(f"mode {mode}", "nearest, linear")


def _resized_axes(b: NodeBuilder) -> list[ResizedAxis]:
    given, wanted = b.shape(0), b.output_shape()
    if b.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise b.node.unsupported(f"policy {b.attribute('keep_aspect_ratio_policy', '')}", "stretch")
    factors = _factors(b)
    rank = len(given)
    axes = [axis + rank if axis < 0 else axis for axis in b.attribute("axes", range(rank))]
    result = []
    for place, index in enumerate(axes):
        if factors is not None and factors[place] == 1:
            continue
        length, resized = given[index], wanted[index]
        if not length or not resized:
            raise b.node.unsupported(f"axis {index} is of unknown length", "fixed shapes of the model's inputs")
        factor = np.float32(resized) / np.float32(length) if factors is None else factors[place]
        if factors is not None or length != resized:
            result.append(ResizedAxis(index, length, resized, factor, np.float32(0), np.float32(1)))
    return result


def _factors(b: NodeBuilder) -> Places | None:
    """Return the factors of the model; None if it gives sizes."""
    if "scales" in b.node.attributes:
        return np.array(b.node.attributes["scales"], np.float32)
    index = 1 if b.graph.opset < _FIRST_WITH_MODES else 2
    values = b.constant(index)
    if values is not None and values.size:
        return values.astype(np.float32)
    if (b.has(index) and values is None) or b.constant(index + 1) is None:
        raise b.node.unsupported("its scales or sizes are computed at run time", "constants")
    return None


def _modes(b: NodeBuilder) -> tuple[str, str]:
    """Return how coordinates are transformed and rounded. Raises UnsupportedNode."""
    if b.graph.opset < _FIRST_WITH_MODES:
        return "asymmetric", SIMPLE
    transformation = b.attribute("coordinate_transformation_mode", "half_pixel")
    if transformation == "tf_crop_and_resize":
        raise b.node.unsupported(
            f"coordinate_transformation_mode {transformation}", "half_pixel, asymmetric, align_corners"
        )
    return transformation, b.attribute("nearest_mode", "round_prefer_floor")


def _nearest(b: NodeBuilder, axes: list[ResizedAxis]) -> None:
    transformation, rounding = _modes(b)
    wanted: dict[int, Indices] = {}
    for axis in axes:
        b.reserve((axis.resized,), np.dtype(np.float32))
        try:
            wanted[axis.index] = axis.nearest(axis.places(transformation), rounding)
        except ValueError as error:
            raise b.node.unsupported(str(error), "those of the specification") from error
    images = len(b.shape(0)) == 4 and min(wanted) >= 2 and b.operand(b.input(0)).type != OperandType.TENSOR_INT32
    for flags in _FLAGS if images else ():
        if all(np.array_equal(_pixels_of_hal(axis, *flags), wanted[axis.index]) for axis in axes):
            _finish(b, OperationType.RESIZE_NEAREST_NEIGHBOR, flags)
            return
    value = b.input(0)
    *others, last = wanted.items()
    for index, pixels in others:
        value = b.apply(OperationType.GATHER, [value, b.int32(index), b.vector(pixels.tolist())])
    b.finish(OperationType.GATHER, [value, b.int32(last[0]), b.vector(last[1].tolist())])


def _linear(b: NodeBuilder, axes: list[ResizedAxis]) -> None:
    rank = len(b.shape(0))
    if rank not in (3, 4) or min(axis.index for axis in axes) < 2:
        raise b.node.unsupported("linear interpolation between channels or images", "images of one or two axes")
    if b.element_type().kind != "f" and b.quantization(0) is None:
        raise b.node.unsupported(f"interpolation between {b.element_type()}, whose rounding is not defined", "floats")
    transformation, _ = _modes(b)
    if transformation not in _LINEAR:
        raise b.node.unsupported(f"mode linear with {transformation}", ", ".join(_LINEAR))
    if b.attribute("antialias", 0) and any(axis.factor < 1 for axis in axes):
        raise b.node.unsupported("antialias", "plain interpolation")
    for axis in axes:
        _require_whole(b, axis)
        if transformation == "pytorch_half_pixel" and axis.resized == 1:
            raise b.node.unsupported(f"mode linear with {transformation} to one pixel", ", ".join(_LINEAR))
    _finish(b, OperationType.RESIZE_BILINEAR, _LINEAR[transformation])


def _require_whole(b: NodeBuilder, axis: ResizedAxis) -> None:
    if axis.factor * np.float32(axis.length) != axis.resized:
        raise b.node.unsupported(
            f"{axis.length} times {axis.factor} is cut to {axis.resized}", "factors that give whole numbers"
        )


def _finish(b: NodeBuilder, code: OperationType, flags: tuple[bool, bool]) -> None:
    shape = b.output_shape()
    height = shape[2] if len(shape) == 4 else 1
    inputs: list[Any] = [image(b, b.input(0), b.shape(0)), b.int32(shape[-1]), b.int32(height), b.boolean(_NCHW)]
    if any(flags):
        inputs += [b.boolean(flag) for flag in flags]
    if len(shape) == 4:
        b.finish(code, inputs)
    else:
        b.finish_reshape(b.apply(code, inputs))


def _pixels_of_hal(axis: ResizedAxis, align_corners: bool, half_pixel: bool) -> Indices:
    """Return the pixels that RESIZE_NEAREST_NEIGHBOR picks."""
    if align_corners and axis.resized > 1:
        factor = np.float32(axis.length - 1) / np.float32(axis.resized - 1)
    else:
        factor = np.float32(axis.length) / np.float32(axis.resized)
    places = (np.arange(axis.resized, dtype=np.float32) + (HALF if half_pixel else np.float32(0))) * factor
    pixels = np.floor(places + HALF) if align_corners else np.floor(places)
    found: Indices = np.minimum(pixels, axis.length - 1).astype(np.int64)
    return found


RESIZE = Converter(convert, lambda form: form.quant8(0) and form.inputs[0] == form.output)
