"""Decisions of a plan, among them how each layer is divided over the tiles. All else follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox, whole
from nnhal_mlip.compiler.layers.tile_layers import TileLayer
from nnhal_mlip.program.program import ROW_KINDS, LayerSplit, TaskKind
from nnhal_mlip.program.sizes import ceil_divide

CHANNELS_AXIS = 3


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """Way to compute a layer."""

    split: LayerSplit
    tiles: int
    """At most so many; fewer if there are not enough rows or channels."""
    row_stripes: int = 1
    channel_stripes: int = 1
    whole_weights: bool = False
    """True if every tile receives all weights, although it needs those of its channels only: one transfer, not many."""


@dataclass(frozen=True, slots=True)
class LayerStripe:
    """Part of a layer that the tiles compute between two barriers."""

    row: int
    channel: int
    boxes: dict[int, TensorBox]
    """The boxes of the output, in the layer's order of axes, by tile."""


def rows_axis(layer: TileLayer) -> int:
    """Return the layer's axis that its rows are along: the height, or the width or the batch if there is but one.

    An axis is not divided if some of its windows see padding alone: a task has some data to read.
    """
    return next((axis for axis in (1, 2, 0) if layer.extents[axis] > 1 and not _blind(layer, axis)), 0)


def _blind(layer: TileLayer, axis: int) -> bool:
    if axis == 0:
        return False
    window = layer.window
    reach = (window.kernel[axis - 1] - 1) * window.dilation[axis - 1] + 1
    return max(window.padding[axis - 1], window.padding[axis + 1]) >= reach


def shares(layer: TileLayer, split: LayerSplit, tiles: int) -> Mapping[int, TensorBox]:
    """Return what each tile computes, in the layer's order of axes; tiles without work are left out."""
    axis = rows_axis(layer) if split is LayerSplit.ROWS else CHANNELS_AXIS
    return _shares(layer.extents, axis, tiles, _unit(layer, axis))


@lru_cache(maxsize=4096)
def _shares(extents: Extents, axis: int, tiles: int, unit: int) -> Mapping[int, TensorBox]:
    return MappingProxyType(dict(enumerate(_cut(whole(extents), axis, tiles, unit))))


def stripes(layer: TileLayer, choice: LayerChoice, array_channels: int) -> list[LayerStripe]:
    """Return the stripes of a layer in their order: for each range of channels, all rows.

    A convolution's have whole blocks of ``array_channels`` channels if they have more than a block.
    """
    rows, unit = rows_axis(layer), _unit(layer, CHANNELS_AXIS)
    block = array_channels if layer.task is TaskKind.CONVOLUTION and layer.groups == 1 else 1
    parts = {
        tile: [
            _cut(columns, rows, choice.row_stripes, 1)
            for columns in _cut(share, CHANNELS_AXIS, choice.channel_stripes, unit, block)
        ]
        for tile, share in shares(layer, choice.split, choice.tiles).items()
    }
    result = []
    for channel in range(choice.channel_stripes):
        for row in range(choice.row_stripes):
            boxes = {
                tile: grid[channel][row]
                for tile, grid in parts.items()
                if channel < len(grid) and row < len(grid[channel])
            }
            if boxes:
                result.append(LayerStripe(row, channel, boxes))
    return result


def most_stripes(layer: TileLayer, choice: LayerChoice) -> tuple[int, int]:
    """Return into how many stripes of rows and of channels the largest share can be cut."""
    shape = shares(layer, choice.split, choice.tiles)[0].shape
    return shape[rows_axis(layer)], shape[CHANNELS_AXIS] // _unit(layer, CHANNELS_AXIS)


def _unit(layer: TileLayer, axis: int) -> int:
    if axis == CHANNELS_AXIS and layer.task in ROW_KINDS:
        return layer.extents[3]
    return layer.extents[3] // layer.groups if axis == CHANNELS_AXIS and layer.groups > 1 else 1


def _cut(box: TensorBox, axis: int, parts: int, unit: int, block: int = 1) -> list[TensorBox]:
    start, stop = box.starts[axis], box.stops[axis]
    step = ceil_divide(ceil_divide(stop - start, unit), parts) * unit
    if step > block:
        step = ceil_divide(step, block) * block
    return [box.along(axis, begin, min(begin + step, stop)) for begin in range(start, stop, step)]


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """The decisions of a plan."""

    layers: tuple[LayerChoice, ...]
    in_ddr: frozenset[str] = frozenset()
    """Roots that the tiles' memory holds only by the stripe that is being computed."""
    leads: Mapping[int, int] = field(default_factory=dict)
    """By how many stages the loads for a layer are ahead of the stage that they are for, if not by one. With one, a
    load begins when the stage before last is done.
    """

    def with_layer(self, number: int, choice: LayerChoice) -> PlanChoices:
        return replace(self, layers=(*self.layers[:number], choice, *self.layers[number + 1 :]))

    def with_lead(self, number: int, lead: int) -> PlanChoices:
        return replace(self, leads={**self.leads, number: lead})

    def ahead(self, layer: int) -> int:
        """Return by how many stages the loads for a layer are ahead."""
        return self.leads.get(layer, 1)
