"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput, prepare_resize, spatial_axes
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter


def resize_bilinear(to: Emitter) -> None:
    """ONNX has the HAL's three ways to place pixels, and clamps at the edges as well."""
    layout = _layout(to)
    mode = "asymmetric"
    if to.op.boolean(ResizeInput.ALIGN_CORNERS):
        mode = "align_corners"
    elif to.op.boolean(ResizeInput.HALF_PIXEL_CENTERS):
        mode = "half_pixel"
    tensor = to.real(ResizeInput.INPUT, layout)
    result = to.graph.add(
        "Resize",
        tensor,
        "",
        "",
        _sizes(to, tensor, layout),
        mode="linear",
        coordinate_transformation_mode=mode,
    )
    to.keep_real(result, layout)


def resize_nearest_neighbor(to: Emitter) -> None:
    """Repeat rows and columns, or pick them by index, since ONNX's Resize rounds places between two pixels differently.

    Each is many times faster than the other in its layout: rows with channels last are copied whole. ONNX Runtime
    convolves bytes with channels last, so these are moved back for it.
    """
    layout = to.common_layout((ResizeInput.INPUT,))
    given, asked = to.op.ranked(ResizeInput.INPUT), prepare_resize(to.op)[0]
    axes = spatial_axes(to.op)
    indices = {axis: _nearest(to.op, given[axis], asked[axis]) for axis in axes}
    last = sorted(layout.axis(axis) for axis in axes) == [2, 3]
    moved_bytes = layout is Layout.MOVED and to.op.main_type() in QUANTIZED
    if last and not moved_bytes and all(_repeats(each, given[axis]) for axis, each in indices.items()):
        places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        tensor = to.kept(ResizeInput.INPUT, layout)
        sizes = _sizes(to, tensor, layout)
        to.keep(to.graph.add("Resize", tensor, "", "", sizes, mode="nearest", **places), layout)
        return
    tensor = to.kept(ResizeInput.INPUT)
    for axis, each in indices.items():
        tensor = to.graph.add("Gather", tensor, to.graph.constant(each), axis=axis)
    to.keep(tensor)


def _sizes(to: Emitter, tensor: str, layout: Layout) -> str:
    """The result's dimensions, of which the number of images may be unknown."""
    asked = prepare_resize(to.op)[0]
    batch, *others = [asked[axis] for axis in sorted(range(len(asked)), key=layout.axis)]
    if batch:
        return to.graph.integers([batch, *others])
    given = to.graph.add("Shape", tensor, start=0, end=1)
    return to.graph.add("Concat", given, to.graph.integers(others), axis=0)


def _repeats(indices: np.ndarray, length: int) -> bool:
    """Return whether each element is repeated equally often."""
    return np.array_equal(indices, np.repeat(np.arange(length), len(indices) // length))


def _layout(to: Emitter) -> Layout:
    return Layout.GIVEN if to.op.boolean(ResizeInput.LAYOUT) else Layout.MOVED


def _nearest(op: OperationContext, length: int, resized: int) -> np.ndarray:
    """The input's pixel for each pixel of the output, computed in float32 as the HAL defines."""
    aligned = op.boolean(ResizeInput.ALIGN_CORNERS)
    half = np.float32(0.5)
    scale = np.float32(length) / np.float32(resized)
    if aligned and resized > 1:
        scale = np.float32(length - 1) / np.float32(resized - 1)
    places = np.arange(resized, dtype=np.float32)
    if op.boolean(ResizeInput.HALF_PIXEL_CENTERS):
        places = places + half
    places = places * scale + (half if aligned else np.float32(0))
    return np.minimum(np.floor(places).astype(np.int64), length - 1)
