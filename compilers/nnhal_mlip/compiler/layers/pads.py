"""Pads with zeros: depthwise convolutions of 1 x 1 with weights of 1, since only these write zeros beside data."""

from __future__ import annotations

import numpy as np

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.geometry.boxes import Extents
from nnhal_mlip.compiler.layers.draft import NetworkDraft, position_of
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, LayerWeights, TileLayer
from nnhal_mlip.flow.files.layers import PadAttributes
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.program.program import TaskKind, TaskWindow


def add_pads(draft: NetworkDraft, node: KernelNode, attrs: PadAttributes, data: str, output: str) -> None:
    """Add a pad to a draft: a layer for each two axes that are padded."""
    place = node.user_name
    widths = list(zip(attrs.pad_width[::2], attrs.pad_width[1::2], strict=True))
    if attrs.pad_value != 0:
        raise MlipCompileError(f"{place}: pads with {attrs.pad_value}, expected 0")
    if any(width < 0 for pair in widths for width in pair):
        raise MlipCompileError(f"{place}: pads by {list(attrs.pad_width)}, expected no negative width")
    rank = len(draft.values[data].shape)
    padded = [(position_of(axis, rank), pair) for axis, pair in enumerate(widths) if any(pair)]
    while len(padded) > 2:
        data = _layer(draft, data, padded[:2], "")
        padded = padded[2:]
    _layer(draft, data, padded, output)


def add_pad(draft: NetworkDraft, data: str, axes: Extents, padding: tuple[int, int, int, int]) -> str:
    """Add a pad of height and width to a draft; return its result.

    Args:
        draft: The network.
        data: What is padded.
        axes: Its batch, height, width and channels.
        padding: Top, left, bottom, right.
    """
    top, left, bottom, right = padding
    return _layer(draft, data, [(axes[1], (top, bottom)), (axes[2], (left, right))], "")


def _layer(draft: NetworkDraft, data: str, padded: list[tuple[int, tuple[int, int]]], output: str) -> str:
    """Add a layer that pads at most two axes; return its result, a new value if ``output`` is empty."""
    value = draft.values[data]
    widths = dict(padded)
    size = [extent + sum(widths.get(axis, (0, 0))) for axis, extent in enumerate(value.extents)]
    extents = (size[0], size[1], size[2], size[3])
    output = output or draft.inner(f"{data}:padded", extents, value.scale)
    rest = [axis for axis in range(4) if axis not in widths]
    high, wide = [*widths, *(rest.pop(len(rest) // 2) for _ in range(2 - len(widths)))]
    axes = (rest[0], high, wide, rest[1])
    (top, bottom), (left, right) = widths.get(high, (0, 0)), widths.get(wide, (0, 0))
    channels = extents[axes[3]]
    draft.layers.append(
        TileLayer(
            draft.kernel,
            TaskKind.DEPTHWISE,
            (LayerOperand(data, axes),),
            LayerOperand(output, axes),
            (extents[axes[0]], extents[axes[1]], extents[axes[2]], channels),
            TaskWindow(padding=(top, left, bottom, right)),
            weights=LayerWeights(np.ones((channels, 1, 1, 1)), None, np.ones(1)),
            is_pad=True,
        )
    )
    return output
