"""Bytes that tiles receive from one another before a layer: what they read of values that others have written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from nnhal_mlip.compiler.geometry.box_bytes import moves
from nnhal_mlip.compiler.geometry.boxes import TensorBox, common
from nnhal_mlip.compiler.planning.choices import PlanChoices
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.compiler.planning.setting import PlanSetting, TileBoxes
from nnhal_mlip.program.program import Strided, TileCopy


class MissingPart(NamedTuple):
    """A part of a root that a tile reads and another has written."""

    source: int
    tile: int
    box: TensorBox


class TileKnowledge:
    """Parts of each root that the tiles have in their memory, as layers are done one after another."""

    def __init__(self, setting: PlanSetting, choices: PlanChoices) -> None:
        self._setting = setting
        self._choices = choices
        self._had: dict[tuple[str, int], list[TensorBox]] = {}

    def fetch(self, layer: int) -> dict[str, list[MissingPart]]:
        """Return what tiles lack for a layer, by root, and note that they have it from now on."""
        setting, choice = self._setting, self._choices.layers[layer]
        found: dict[str, list[MissingPart]] = {}
        for operand, read in zip(setting.layers[layer].inputs, setting.access(layer, choice).read, strict=True):
            root = setting.root(operand.value)
            if root in self._choices.in_ddr or not setting.uses[root].writers:
                continue
            for tile, box in read.items():
                had = self._had.setdefault((root, tile), [])
                if not any(other.holds(box) for other in had):
                    parts = missing(self._owned(root), tile, box)
                    found.setdefault(root, []).extend(
                        part for part in parts if not any(other.holds(part.box) for other in had)
                    )
                    had.append(box)
        return found

    def _owned(self, root: str) -> list[TileBoxes]:
        setting = self._setting
        return [setting.access(number, self._choices.layers[number]).written for number in setting.uses[root].writers]


def missing(owned: Iterable[TileBoxes], tile: int, box: TensorBox) -> Iterator[MissingPart]:
    """Yield the parts of what a tile reads that other tiles have written.

    Args:
        owned: What tiles have written, by writer.
        tile: The reader.
        box: What it reads.
    """
    for written in owned:
        for source, other in written.items():
            if source != tile and (part := common(box, other)) is not None:
                yield MissingPart(source, tile, part)


def tile_copies(plan: TilePlan, wanted: Mapping[str, list[MissingPart]]) -> tuple[TileCopy, ...]:
    """Return the copies that bring parts to tiles; what goes to the same addresses of several tiles is one copy."""
    masks: dict[tuple[int, Strided, Strided], int] = {}
    for root, parts in wanted.items():
        buffer = plan.buffers.values[root]
        for source, tile, box in parts:
            for pair in moves(box, plan.placed(buffer, source), plan.placed(buffer, tile)):
                key = (source, *pair)
                masks[key] = masks.get(key, 0) | 1 << tile
    return tuple(TileCopy(source, taken, mask, given) for (source, taken, given), mask in masks.items())
