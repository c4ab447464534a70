"""Pools and means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnhal.arrays import Array
from nnhal_devices.mlip.compiler.errors import MlipCompileError
from nnhal_devices.mlip.compiler.geometry.boxes import Extents
from nnhal_devices.mlip.compiler.layers.draft import NetworkDraft, activation, position_of
from nnhal_devices.mlip.compiler.layers.pads import add_pad
from nnhal_devices.mlip.compiler.layers.tile_layers import LayerOperand, TileLayer
from nnhal_devices.mlip.flow.files.layers import GLOBAL_MAX_POOL, GlobalPoolAttributes, MeanAttributes, PoolAttributes
from nnhal_devices.mlip.flow.files.nodes_file import KernelNode
from nnhal_devices.mlip.program.program import TaskKind, TaskWindow

_AXES: dict[str, Extents] = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 2, 3, 1)}


def add_pool(draft: NetworkDraft, node: KernelNode, attrs: PoolAttributes, data: str, output: str) -> None:
    """Add a pool with a window to a draft."""
    place = node.user_name
    average = attrs.count_include_pad is not None
    top, left, bottom, right = attrs.padding
    counted = bool(attrs.count_include_pad)
    zeros = node.attrs.nnhal.zero_padding if node.attrs.nnhal is not None else None
    axes = _axes(attrs.layout, place)
    if zeros is not None and any(zeros):
        if average and zeros == attrs.padding:
            counted = True
        elif not counted:
            data = add_pad(draft, data, axes, zeros)
            top, left, bottom, right = (own - zero for own, zero in zip(attrs.padding, zeros, strict=True))
    window = TaskWindow(
        (attrs.pool_size[0], attrs.pool_size[1]),
        (attrs.strides[0], attrs.strides[1]),
        (attrs.dilation[0], attrs.dilation[1]),
        (top, left, bottom, right),
        counted and any((top, left, bottom, right)),
    )
    kind = TaskKind.AVERAGE_POOL if average else TaskKind.MAX_POOL
    layer = _layer(draft, node, kind, data, output, axes, window)
    _check_reach(draft, layer, place)
    if not _see_data(draft, layer):
        if not counted:
            raise MlipCompileError(
                f"{place}: a window lies in the padding {list(window.padding)}, expected some data in each"
            )
        data = add_pad(draft, data, axes, window.padding)
        layer = _layer(draft, node, kind, data, output, axes, window._replace(padding=(0,) * 4, count_padding=False))
    draft.layers.append(layer)


def add_global_pool(draft: NetworkDraft, node: KernelNode, attrs: GlobalPoolAttributes, data: str, output: str) -> None:
    """Add a pool over height and width to a draft."""
    kind = TaskKind.MAX_POOL if attrs.layer_name == GLOBAL_MAX_POOL else TaskKind.AVERAGE_POOL
    axes = _axes(attrs.layout, node.user_name)
    extents = draft.values[data].extents
    window = TaskWindow((extents[axes[1]], extents[axes[2]]))
    draft.layers.append(_layer(draft, node, kind, data, output, axes, window))


def add_mean(draft: NetworkDraft, node: KernelNode, attrs: MeanAttributes, data: str, output: str) -> None:
    """Add a mean over one axis or two to a draft."""
    rank = len(draft.values[data].shape)
    summed = tuple(dict.fromkeys(position_of(axis, rank) for axis in attrs.axis))
    if not 1 <= len(summed) <= 2:
        raise MlipCompileError(f"{node.user_name}: a mean over axes {list(attrs.axis)}, expected one axis or two")
    rest = [axis for axis in range(4) if axis not in summed]
    high, wide = summed if len(summed) == 2 else (summed[0], rest.pop(1))
    axes = (rest[0], high, wide, rest[1])
    extents = draft.values[data].extents
    left = [1 if axis in summed else extent for axis, extent in enumerate(extents)]
    inner = draft.values[output].extents
    target = output
    if tuple(left) != inner:
        target = draft.inner(f"{output}:mean", (left[0], left[1], left[2], left[3]), draft.values[output].scale)
        draft.set_view(output, target)
    window = TaskWindow((extents[high], extents[wide] if wide in summed else 1))
    draft.layers.append(_layer(draft, node, TaskKind.AVERAGE_POOL, data, target, axes, window))


def _layer(
    draft: NetworkDraft, node: KernelNode, kind: TaskKind, data: str, output: str, axes: Extents, window: TaskWindow
) -> TileLayer:
    extents = draft.values[output].extents
    ordered = extents[axes[0]], extents[axes[1]], extents[axes[2]], extents[axes[3]]
    return TileLayer(
        draft.kernel, kind, (LayerOperand(data, axes),), LayerOperand(output, axes), ordered, window, activation(node)
    )


def _axes(layout: str, place: str) -> Extents:
    if layout not in _AXES:
        raise MlipCompileError(f"{place}: a pool of data in {layout!r}, expected {' or '.join(_AXES)}")
    return _AXES[layout]


def _see_data(draft: NetworkDraft, layer: TileLayer) -> bool:
    """Return whether each window has some data."""
    return all(((taps >= 0) & (taps < extent)).any(axis=1).all() for taps, extent in _taps(draft, layer))


def _check_reach(draft: NetworkDraft, layer: TileLayer, place: str) -> None:
    """Refuse averages that count some of what lies outside but not all."""
    window = layer.window
    for (taps, extent), after in zip(_taps(draft, layer), window.padding[2:], strict=True):
        if window.count_padding and taps.max() >= extent + after:
            raise MlipCompileError(
                f"{place}: an average counts the padding {list(window.padding)}, and ceil_mode lets a window reach "
                f"beyond it; expected one of the two"
            )


def _taps(draft: NetworkDraft, layer: TileLayer) -> Iterator[tuple[Array, int]]:
    """Yield for height and width where the windows look, by window and element, and the extent of the data."""
    window, axes = layer.window, layer.inputs[0].axes
    extents = draft.values[layer.inputs[0].value].extents
    for axis in (0, 1):
        starts = np.arange(layer.extents[axis + 1])[:, None] * window.strides[axis] - window.padding[axis]
        yield starts + np.arange(window.kernel[axis])[None, :] * window.dilation[axis], extents[axes[axis + 1]]
