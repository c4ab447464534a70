"""Pools and means."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.geometry.boxes import Extents
from nnhal_mlip.compiler.layers.draft import NetworkDraft, activation, position_of
from nnhal_mlip.compiler.layers.pads import add_pad
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, TileLayer
from nnhal_mlip.flow.files.layers import GLOBAL_MAX_POOL, GlobalPoolAttributes, MeanAttributes, PoolAttributes
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.flow.graph.windows import all_touch, reach
from nnhal_mlip.program.program import TaskKind, TaskWindow

Sides = tuple[int, int, int, int]
"""Top, left, bottom, right."""
_AXES: dict[str, Extents] = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 2, 3, 1)}


def add_pool(draft: NetworkDraft, node: KernelNode, attrs: PoolAttributes, data: str, output: str) -> None:
    place = node.user_name
    average = attrs.count_include_pad is not None
    top, left, bottom, right = attrs.padding
    own = top, left, bottom, right
    counted = bool(attrs.count_include_pad)
    zeros = node.attrs.nnhal.zero_padding if node.attrs.nnhal is not None else None
    axes = _axes(attrs.layout, place)
    if zeros is not None and any(zeros):
        if average and zeros == own:
            counted = True
        elif not counted:
            data, own = _padded(draft, data, axes, zeros, own)
    window = TaskWindow(
        (attrs.pool_size[0], attrs.pool_size[1]),
        (attrs.strides[0], attrs.strides[1]),
        (attrs.dilation[0], attrs.dilation[1]),
        own,
        counted and any(own),
    )
    given, made = draft.values[data].extents, draft.values[output].extents
    sizes, counts = (given[axes[1]], given[axes[2]]), (made[axes[1]], made[axes[2]])
    if window.count_padding and not _counts_alone(window, sizes, counts):
        data, own = _padded(draft, data, axes, own, own)
        window = window._replace(padding=own, count_padding=False)
    kind = TaskKind.AVERAGE_POOL if average else TaskKind.MAX_POOL
    layer = _layer(draft, node, kind, data, output, axes, window)
    _check_windows(draft, layer, place)
    draft.layers.append(layer)


def add_global_pool(draft: NetworkDraft, node: KernelNode, attrs: GlobalPoolAttributes, data: str, output: str) -> None:
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


def _padded(draft: NetworkDraft, data: str, axes: Extents, zeros: Sequence[int], padding: Sides) -> tuple[str, Sides]:
    """Add a pad of zeros to a draft; return its result, and what is left of a padding."""
    top, left, bottom, right = zeros
    rest = padding[0] - top, padding[1] - left, padding[2] - bottom, padding[3] - right
    return add_pad(draft, data, axes, (top, left, bottom, right)), rest


def _counts_alone(window: TaskWindow, sizes: tuple[int, int], counts: tuple[int, int]) -> bool:
    """Return whether a task can count its padding: each window has data, and none reaches beyond the padding."""
    for axis, size in enumerate(sizes):
        windows = _windows(window, axis, counts[axis])
        if not all_touch(windows, 0, size) or windows[-1][-1] >= size + window.padding[axis + 2]:
            return False
    return True


def _windows(window: TaskWindow, axis: int, count: int) -> list[range]:
    return reach(count, window.kernel[axis], window.strides[axis], window.dilation[axis], window.padding[axis])


def _check_windows(draft: NetworkDraft, layer: TileLayer, place: str) -> None:
    """Refuse windows without data."""
    extents = draft.values[layer.inputs[0].value].extents
    for axis in (0, 1):
        size = extents[layer.inputs[0].axes[axis + 1]]
        if not all_touch(_windows(layer.window, axis, layer.extents[axis + 1]), 0, size):
            got = f"a window in the padding {list(layer.window.padding)}"
            raise MlipCompileError(f"{place}: {got}, expected some data in each")
