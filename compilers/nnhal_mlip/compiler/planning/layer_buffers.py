"""Needs of a layer alone in the tiles' memory, in stages counted from its first."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_mlip.compiler.geometry.boxes import TensorBox, consecutive, hull
from nnhal_mlip.compiler.planning.choices import CHANNELS_AXIS, LayerChoice, LayerStripe, stripes
from nnhal_mlip.compiler.planning.setting import PlanSetting, TileBoxes


class StagedBoxes(NamedTuple):
    """Boxes that some stages read or write, or the constants of them."""

    root: str
    """Empty for constants."""
    channel: int
    """The stripe of channels, for constants."""
    boxes: TileBoxes
    """The boxes of the root; for constants, of the output, in the layer's order of axes."""
    bytes: int
    """The bytes of the tile that takes most."""
    first: int
    last: int


class LayerBuffers(NamedTuple):
    """Buffers of a layer, with its choice and with some roots in DDR."""

    stripes: list[LayerStripe]
    """One for each stage."""
    read: list[StagedBoxes]
    """What is read of roots in DDR."""
    written: list[StagedBoxes]
    """What is written of a root in DDR; one for each stage."""
    weights: list[StagedBoxes]


def layer_buffers(setting: PlanSetting, number: int, choice: LayerChoice, in_ddr: frozenset[str]) -> LayerBuffers:
    """Return what a layer asks for; ``in_ddr`` are those of its roots that are in DDR."""
    layer = setting.layers[number]
    stages = stripes(layer, choice, setting.profile.array_channels)
    target = setting.root(layer.output.value)
    written = []
    runs: dict[str, list[tuple[TileBoxes, list[int]]]] = {}
    for stage, stripe in enumerate(stages):
        for root, read in _read(setting, number, stripe.boxes, in_ddr).items():
            found = runs.setdefault(root, [])
            if found and found[-1][0] == read:
                found[-1][1].append(stage)
            else:
                found.append((read, [stage]))
        if target in in_ddr:
            out = {tile: setting.written_box(layer, box) for tile, box in stripe.boxes.items()}
            written.append(StagedBoxes(target, 0, out, box_bytes(setting, out), stage, stage))
    read_boxes = [
        StagedBoxes(root, 0, read, box_bytes(setting, read), at[0], at[-1])
        for root, found in runs.items()
        for read, at in found
    ]
    return LayerBuffers(stages, read_boxes, written, _weights(setting, number, choice, stages))


def widen(boxes: dict[int, TensorBox], others: TileBoxes) -> None:
    """Let boxes hold others as well, tile by tile."""
    for tile, box in others.items():
        boxes[tile] = hull(boxes[tile], box) if tile in boxes else box


def box_bytes(setting: PlanSetting, boxes: TileBoxes) -> int:
    return max(box.elements for box in boxes.values()) * setting.item


def _read(setting: PlanSetting, number: int, boxes: TileBoxes, in_ddr: frozenset[str]) -> dict[str, TileBoxes]:
    layer = setting.layers[number]
    wanted: dict[str, dict[int, TensorBox]] = {}
    for index, operand in enumerate(layer.inputs):
        root = setting.root(operand.value)
        if root in in_ddr:
            read = {tile: setting.read_box(layer, index, box) for tile, box in boxes.items()}
            widen(wanted.setdefault(root, {}), read)
    return {
        root: {tile: consecutive(box, setting.extents(root)) for tile, box in read.items()}
        if root in setting.aliased.viewed
        else read
        for root, read in wanted.items()
    }


def _weights(setting: PlanSetting, number: int, choice: LayerChoice, stages: list[LayerStripe]) -> list[StagedBoxes]:
    layer = setting.layers[number]
    if layer.weights is None:
        return []
    by_channels: dict[int, list[int]] = {}
    for stage, stripe in enumerate(stages):
        by_channels.setdefault(stripe.channel, []).append(stage)
    found = []
    for channel, at in by_channels.items():
        boxes: dict[int, TensorBox] = {}
        for stage in at:
            widen(boxes, stages[stage].boxes)
        if choice.whole_weights:
            boxes = {tile: box.along(CHANNELS_AXIS, 0, layer.extents[3]) for tile, box in boxes.items()}
        size = max(setting.constants_bytes(layer, box.shape[3]) for box in boxes.values())
        found.append(StagedBoxes("", channel, boxes, size, at[0], at[-1]))
    return found
