"""The buffers that decisions ask for: how many bytes of each tile, and from which stage to which.

Time is counted in stages. What is loaded for a stage lies in memory from the stage during which it arrives; what is
stored after a stage lies there until the next one is done. Two buffers whose times do not meet may share addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nnhal_mlip.compiler.geometry.boxes import TensorBox, consecutive, whole
from nnhal_mlip.compiler.planning.choices import LayerChoice, LayerStripe, PlanChoices
from nnhal_mlip.compiler.planning.layer_buffers import (
    LayerBuffers,
    StagedBoxes,
    box_bytes,
    layer_buffers,
    widen,
)
from nnhal_mlip.compiler.planning.setting import PlanSetting, TileBoxes

BROADCAST_SHARE = 8
"""What comes from DDR goes to all tiles as a whole, in one transfer, if it takes at most one in so many bytes."""


class OcmBufferUse(StrEnum):
    """Content of a buffer."""

    VALUE = "value"
    """A root from its first writer to its last reader."""
    INPUT = "input"
    """What one stage, or several, read of a root in DDR."""
    OUTPUT = "output"
    """What one stage writes of a root in DDR."""
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class OcmBuffer:
    """Bytes at the same address of each tile."""

    use: OcmBufferUse
    root: str
    """Empty for weights."""
    layer: int
    """The first that uses it."""
    boxes: TileBoxes
    """What of the root; for weights, of the output, in the layer's order of axes."""
    bytes: int
    """The bytes of the tile that takes most."""
    begin: int
    """A stage."""
    end: int
    """The last stage."""
    pinned: bool = False
    """True if it is filled at start, and kept."""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """Work between two barriers."""

    layer: int
    stripe: LayerStripe


@dataclass(slots=True)
class BufferPlan:
    """The stages and buffers of decisions."""

    stages: list[PlannedStage] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The first stage of each layer."""
    last: list[int] = field(default_factory=list)
    """The last stage of each layer."""
    values: dict[str, OcmBuffer] = field(default_factory=dict)
    """By root."""
    staged: dict[tuple[int, str], OcmBuffer] = field(default_factory=dict)
    """By stage and root; stages may share one."""
    written: dict[int, OcmBuffer] = field(default_factory=dict)
    """By stage."""
    weights: dict[tuple[int, int], OcmBuffer] = field(default_factory=dict)
    """By layer and stripe of channels."""

    def buffers(self) -> list[OcmBuffer]:
        groups = (self.values, self.staged, self.written, self.weights)
        return list({id(buffer): buffer for group in groups for buffer in group.values()}.values())


class BufferPlanner:
    """Makes the buffers of decisions, one set after another; what has not changed is not computed again."""

    def __init__(self, setting: PlanSetting) -> None:
        self._setting = setting
        self._layers: dict[tuple[int, LayerChoice, frozenset[str]], LayerBuffers] = {}
        self._values: dict[tuple[object, ...], tuple[TileBoxes, int]] = {}
        self._roots = [
            frozenset(setting.root(operand.value) for operand in (*layer.inputs, layer.output))
            for layer in setting.layers
        ]

    def plan(self, choices: PlanChoices) -> BufferPlan:
        setting, plan = self._setting, BufferPlan()
        found = []
        for number, choice in enumerate(choices.layers):
            own = self._layer(number, choice, choices.in_ddr & self._roots[number])
            found.append(own)
            plan.first.append(len(plan.stages))
            plan.stages += [PlannedStage(number, stripe) for stripe in own.stripes]
            plan.last.append(len(plan.stages) - 1)
        for root, use in setting.uses.items():
            if root not in choices.in_ddr and (use.writers or use.readers):
                plan.values[root] = self._value(choices, plan, root)
        for number, own in enumerate(found):
            first, ahead = plan.first[number], choices.ahead(number)
            for part in own.read:
                lead = min(ahead, 1) if setting.uses[part.root].writers else ahead
                buffer = _buffer(OcmBufferUse.INPUT, number, part, max(first + part.first - lead, 0), first + part.last)
                plan.staged.update({(first + stage, part.root): buffer for stage in range(part.first, part.last + 1)})
            for part in own.written:
                stage = first + part.first
                plan.written[stage] = _buffer(OcmBufferUse.OUTPUT, number, part, stage, stage + 1)
            for part in own.weights:
                begin, end = max(first + part.first - ahead, 0), first + part.last
                plan.weights[number, part.channel] = _buffer(
                    OcmBufferUse.WEIGHTS, number, part, begin, end, setting.pinned
                )
        return plan

    def _layer(self, number: int, choice: LayerChoice, in_ddr: frozenset[str]) -> LayerBuffers:
        key = (number, choice, in_ddr)
        if key not in self._layers:
            self._layers[key] = layer_buffers(self._setting, number, choice, in_ddr)
        return self._layers[key]

    def _value(self, choices: PlanChoices, plan: BufferPlan, root: str) -> OcmBuffer:
        setting, use = self._setting, self._setting.uses[root]
        users = (
            (choices.layers[number].split, choices.layers[number].tiles) for number in (*use.writers, *use.readers)
        )
        key = (root, *users)
        if key not in self._values:
            boxes = value_boxes(setting, choices, root)
            self._values[key] = boxes, box_bytes(setting, boxes)
        boxes, size = self._values[key]
        if use.writers:
            begin = plan.first[use.writers[0]]
        else:
            begin = max(plan.first[use.readers[0]] - choices.ahead(use.readers[0]), 0)
        ends = [plan.last[number] for number in use.readers]
        ends += [plan.last[number] + use.leaves for number in use.writers]
        layer = (use.writers or use.readers)[0]
        pinned = setting.pinned and setting.is_constant(root)
        return OcmBuffer(OcmBufferUse.VALUE, root, layer, boxes, size, begin, max(ends), pinned)


def value_boxes(setting: PlanSetting, choices: PlanChoices, root: str) -> TileBoxes:
    """Return what each tile holds of a root that is kept in the tiles' memory: what it writes, and what it reads."""
    use, layers = setting.uses[root], setting.layers
    boxes: dict[int, TensorBox] = {}
    for number in use.writers:
        widen(boxes, setting.access(number, choices.layers[number]).written)
    for number in use.readers:
        access = setting.access(number, choices.layers[number])
        for operand, read in zip(layers[number].inputs, access.read, strict=True):
            if setting.root(operand.value) == root:
                widen(boxes, read)
    extents = setting.extents(root)
    everything = whole(extents)
    if not use.writers and everything.elements * setting.item * BROADCAST_SHARE <= setting.capacity:
        return dict.fromkeys(boxes, everything)
    if root in setting.aliased.viewed:
        boxes = {tile: consecutive(box, extents) for tile, box in boxes.items()}
    return boxes


def _buffer(use: OcmBufferUse, layer: int, part: StagedBoxes, begin: int, end: int, pinned: bool = False) -> OcmBuffer:
    return OcmBuffer(use, part.root, layer, part.boxes, part.bytes, begin, end, pinned)
